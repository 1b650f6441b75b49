# frozen_string_literal: true

module NgxSendfile
  # What keys, paths and headers have in common.
  module Text
    CONTROL = /[\x00-\x1f\x7f]/n
    CONTROL_BUT_TAB = /[\x00-\x08\x0a-\x1f\x7f]/n
    SHOWN = 120

    module_function

    # The bytes of a value, whatever encoding it says it is in.
    def bytes(value)
      String.new(value.to_s).force_encoding(Encoding::BINARY)
    end

    # A value as UTF-8, nil if it is not text.
    def utf8(value)
      text = String.new(value.to_s)
      text.force_encoding(Encoding::UTF_8) if text.encoding == Encoding::BINARY
      text = text.encode(Encoding::UTF_8)
      text if text.valid_encoding?
    rescue EncodingError
      nil
    end

    # A value for a message: quoted, without control bytes, not too long.
    def show(value)
      text = value.is_a?(String) ? value : value.to_s
      text.bytesize > SHOWN ? "#{text.byteslice(0, SHOWN).scrub.inspect}..." : text.inspect
    end
  end
end
