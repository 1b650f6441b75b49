# frozen_string_literal: true

module NgxSendfile
  # A key as it is, of which c.key makes nothing else.
  class Key
    def initialize(text)
      @text = text.dup.freeze
    end

    def to_s
      @text
    end

    def inspect
      @text.inspect
    end
  end
end
