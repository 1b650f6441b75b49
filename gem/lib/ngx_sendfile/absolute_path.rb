# frozen_string_literal: true

require_relative 'text'

module NgxSendfile
  # The path for X-Sendfile: absolute, and such that a header can carry it.
  module AbsolutePath
    module_function

    # The bytes as they are, called UTF-8 if they can be.
    #
    # Raises InvalidOption.
    def check(path)
      path = Text.bytes(path.respond_to?(:to_path) ? path.to_path : path)
      fault = fault(path)
      raise InvalidOption, "#{Text.show(path.force_encoding(Encoding::UTF_8))} #{fault}" if fault

      path = File.expand_path(path.squeeze('/')).force_encoding(Encoding::UTF_8)
      path.valid_encoding? ? path : path.b
    end

    def fault(path)
      if path.empty? then 'is no path: write an absolute one'
      elsif path.match?(Text::CONTROL) then 'has a control byte, which no header can carry: rename the file'
      elsif !path.start_with?('/')
        'is a relative path: write an absolute one, such as File.join("/srv/files", path)'
      elsif path.end_with?(' ') then 'ends with a space, which HTTP cuts off: rename the file'
      elsif path.split('/').include?('..')
        'has "..": write the path without, or File.expand_path(path) if no part of it comes from a client'
      end
    end
  end
end
