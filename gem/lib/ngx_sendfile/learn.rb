# frozen_string_literal: true

module NgxSendfile
  # The option +learn+ of send_file: how long nginx may answer by itself.
  module Learn
    HEADER = 'X-Accel-Expires'
    EXAMPLE = 'write learn: 10.minutes, or seconds as in learn: 600; learn: nil for never'

    # what a signed number of 32 bits holds, 68 years
    MAX = (2**31) - 1

    module_function

    # Seconds for the header, nil if the answer is not to be learned.
    #
    # Raises InvalidOption if +value+ is no time.
    def seconds(value)
      return if value.nil? || value == false

      number = to_number(value)
      raise InvalidOption, "learn: #{value.inspect} is no time: #{EXAMPLE}" unless number
      raise InvalidOption, "learn: #{value.inspect} is less than a second: #{EXAMPLE}" if number < 1
      raise InvalidOption, "learn: #{value.inspect} is more than #{MAX} seconds: #{EXAMPLE}" if number > MAX

      number
    end

    def to_number(value)
      case value
      when Integer then value
      when Float, Rational then value.floor if value.finite?
      else value.to_i if duration?(value)
      end
    end

    def duration?(value)
      defined?(ActiveSupport::Duration) && ActiveSupport::Duration === value # rubocop:disable Style/CaseEquality
    end
  end
end
