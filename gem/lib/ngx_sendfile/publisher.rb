# frozen_string_literal: true

require_relative 'key'
require_relative 'record'
require_relative 'store'
require_relative 'purger'

module NgxSendfile
  # One configuration at work: first the store, then the purge.
  class Publisher
    MAX_KEY = 250

    attr_reader :config

    def initialize(config)
      @config = config
      @store = Store.new(config)
      @purger = Purger.new(config)
    end

    def publish(id, path, purge: true, **fields)
      key = key(id)
      record = Record.new(path, root: config.root, **fields)
      if record.expired?
        @store.delete(key)
      else
        @store.set(key, record.to_s, record.seconds_left)
      end
      @purger.purge(key) if purge
      true
    end

    def unpublish(id, purge: true)
      key = key(id)
      found = @store.delete(key)
      @purger.purge(key) if purge
      found
    end

    def purge(id = nil, url: nil)
      raise InvalidOption, 'purge is given an ID and a URL: write the one or the other' unless id.nil? || url.nil?

      url.nil? ? @purger.purge(key(id)) : @purger.purge_url(url)
      true
    end

    def purge_all
      @purger.purge_all
      true
    end

    # The key of an ID.
    #
    # Raises InvalidKey.
    def key(id)
      raise InvalidKey, 'the ID is nil: write the ID that the URL has' if id.nil?

      key = Text.bytes(made(id))
      fault = fault_of_key(key)
      raise InvalidKey, "key #{Text.show(key)} of the ID #{id.inspect} #{fault}" if fault

      key
    end

    private

    def made(id)
      maker = config.key
      return id.to_s if id.is_a?(Key)

      maker.respond_to?(:call) ? maker.call(id) : "#{maker}#{id}"
    end

    def fault_of_key(key)
      if key.empty? then 'is empty: write 1 to 250 bytes'
      elsif key.bytesize > MAX_KEY then "has #{key.bytesize} bytes: write #{MAX_KEY} at most"
      elsif key.include?(' ') then 'has a space: write it without'
      elsif key.match?(Text::CONTROL) then 'has a control byte: write it without'
      end
    end
  end
end
