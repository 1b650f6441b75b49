# frozen_string_literal: true

require_relative 'text'
require_relative 'record_headers'

module NgxSendfile
  # What a record says beside the path.
  module RecordFields
    KNOWN = %i[name type disposition headers expires].freeze
    DISPOSITIONS = %w[inline attachment].freeze

    # the end of the year 9999, and a time before which seconds are a mistake
    LAST = 253_402_300_799
    FIRST = 1_000_000_000

    module_function

    # The fields as JSON has them; what is nil or empty is left away.
    #
    # Raises InvalidRecord.
    def check(fields)
      unknown = fields.keys - KNOWN
      raise InvalidRecord, "a record has no #{unknown.first.inspect}: write #{list}" unless unknown.empty?

      checked = fields.compact.to_h { |name, value| [name.to_s, send(name, value)] }
      checked.reject { |_, value| ['', {}].include?(value) }
    end

    def list
      KNOWN.map { |name| "#{name}:" }.join(', ')
    end

    def name(value)
      text('name', value)
    end

    def type(value)
      text('type', value)
    end

    def disposition(value)
      value = text('disposition', value)
      return value if value.empty? || DISPOSITIONS.include?(value)

      raise InvalidRecord, "disposition #{Text.show(value)}: write \"inline\" or \"attachment\""
    end

    def headers(value)
      RecordHeaders.check(value)
    end

    # A time, a duration from now on, or Unix seconds.
    def expires(value)
      seconds = Learn.duration?(value) ? Time.now.to_i + value.to_i : unix_seconds(value)
      return seconds if seconds&.between?(FIRST, LAST)

      raise InvalidRecord, "expires #{value.inspect} is no time: " \
                           'write Time.now + 600, 10.minutes, or Unix seconds'
    end

    def unix_seconds(value)
      case value
      when String then nil
      when Integer, Time then value.to_i
      when Numeric then value.to_i if value.real? && value.finite?
      else value.to_time.to_i if value.respond_to?(:to_time)
      end
    end

    def text(field, value)
      checked = Text.utf8(value)
      raise InvalidRecord, "#{field} #{Text.show(value)} is not UTF-8: write it in UTF-8" unless checked
      return checked unless Text.bytes(checked).match?(Text::CONTROL)

      raise InvalidRecord, "#{field} #{Text.show(value)} has a control byte: write it without"
    end
  end
end
