# frozen_string_literal: true

require_relative 'text'

module NgxSendfile
  # The path of a record: relative to the folder of the files, nothing decoded.
  module RecordPath
    MAX_BYTES = 4096

    module_function

    # The bytes of the path, relative to +root+.
    #
    # Raises InvalidRecord.
    def relative(path, root)
      path = Text.bytes(path.respond_to?(:to_path) ? path.to_path : path)
      path = below(path, Text.bytes(root)) if root && path.start_with?('/')
      fault = fault(path)
      raise InvalidRecord, "path #{show(path)} #{fault}" if fault

      path
    end

    # Component by component: /data does not hold /data-private/a.
    def below(path, root)
      folder = root.end_with?('/') ? root : "#{root}/"
      return path.delete_prefix(folder) if path.start_with?(folder)

      raise InvalidRecord, "path #{show(path)} is not below the root #{show(root)}: " \
                           'write a path below it, or set c.root to the folder of the files'
    end

    def fault(path)
      if path.empty? then 'is empty: write the path of the file, such as "29/7887.jpg"'
      elsif path.bytesize > MAX_BYTES then "has #{path.bytesize} bytes: write #{MAX_BYTES} at most"
      elsif path.match?(Text::CONTROL) then 'has a control byte: write it without, a newline at the end for instance'
      elsif path.start_with?('/')
        'starts with "/": write it relative to the folder of the files, or set c.root to that folder'
      elsif path.end_with?('/') then 'ends with "/": write the path of a file'
      else
        fault_of_segments(path.split('/'))
      end
    end

    def fault_of_segments(segments)
      if segments.include?('..') then 'has "..": write it without, such as "29/7887.jpg"'
      elsif segments.include?('.') then 'has ".": write it without, such as "29/7887.jpg"'
      elsif segments.include?('') then 'has "//": write a single "/"'
      end
    end

    def show(path)
      Text.show(path.dup.force_encoding(Encoding::UTF_8))
    end
  end
end
