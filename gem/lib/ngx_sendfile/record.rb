# frozen_string_literal: true

require 'json'

require_relative 'record_path'
require_relative 'record_fields'

module NgxSendfile
  # A value of the store, as docs/records.md of the nginx module describes it.
  class Record
    MAX_BYTES = 65_536

    # Unix seconds until which it is good, nil for ever.
    attr_reader :expires

    # +root+ is the folder that an absolute +path+ must lie in. The other
    # arguments are those of NgxSendfile.publish.
    #
    # Raises InvalidRecord if nginx would not take it.
    def initialize(path, root: nil, **fields)
      @path = RecordPath.relative(path, root)
      @fields = RecordFields.check(fields)
      @expires = @fields['expires']
      @bytes = encode.freeze
      return if @bytes.bytesize <= MAX_BYTES

      raise InvalidRecord, "the record of #{Text.show(path)} has #{@bytes.bytesize} bytes, " \
                           "#{MAX_BYTES} are allowed: write fewer or shorter headers"
    end

    # What the store gets: the path alone if there is no more to say.
    def to_s
      @bytes
    end

    def expired?(now = Time.now)
      !expires.nil? && expires <= now.to_i
    end

    # Seconds for memcached's own expiry, at least one, since 0 is for ever;
    # nil for none, also for a time that is too far away for memcached.
    def seconds_left(now = Time.now)
      return if expires.nil? || expires >= 2**31

      [expires - now.to_i, 1].max
    end

    private

    def encode
      return @path if @fields.empty? && !@path.start_with?('{')

      path = Text.utf8(@path)
      unless path
        raise InvalidRecord, "path #{Text.show(@path)} is not UTF-8, so it cannot stand beside " \
                             "#{@fields.keys.join(', ')}: write the path alone, or rename the file"
      end

      JSON.generate({ 'path' => path }.merge(@fields))
    end
  end
end
