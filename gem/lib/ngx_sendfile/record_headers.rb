# frozen_string_literal: true

require_relative 'text'

module NgxSendfile
  # The headers of a record: those that nginx sends, and no other.
  module RecordHeaders
    NAMES = %w[
      Cache-Control Expires ETag Last-Modified Content-Language Content-Encoding
      Vary Link Content-Security-Policy X-Robots-Tag X-Frame-Options
    ].freeze
    ALLOWED = /\A(?:#{NAMES.join('|')}|Access-Control-[A-Z0-9-]+)\z/i
    MAX = 32

    module_function

    def check(headers)
      unless headers.respond_to?(:to_hash)
        raise InvalidRecord, "headers #{headers.inspect} are no Hash: write headers: { 'Vary' => 'Accept' }"
      end

      checked = headers.to_hash.to_h { |name, value| [check_name(name.to_s), check_value(name, value)] }
      raise InvalidRecord, "#{headers.size} headers: write #{MAX} at most" if headers.size > MAX

      check_twice(checked)
    end

    def check_name(name)
      return name if Text.bytes(name).match?(ALLOWED)

      raise InvalidRecord, "header #{Text.show(name)} is not sent: write one of #{NAMES.join(', ')}, " \
                           'or one that begins with Access-Control-'
    end

    def check_value(name, value)
      text = Text.utf8(value) if value.is_a?(String) || value.is_a?(Symbol) || value.is_a?(Integer)
      raise InvalidRecord, "header #{name}: #{value.inspect} is no text in UTF-8: write a String" unless text
      return text unless Text.bytes(text).match?(Text::CONTROL_BUT_TAB)

      raise InvalidRecord, "header #{name}: #{Text.show(text)} has a control byte: write it without"
    end

    def check_twice(headers)
      twice = headers.keys.group_by(&:downcase).values.find { |names| names.size > 1 }
      return headers unless twice

      raise InvalidRecord, "headers #{twice.join(' and ')} are the same: write one of them"
    end
  end
end
