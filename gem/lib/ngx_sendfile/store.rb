# frozen_string_literal: true

module NgxSendfile
  # memcached, through Dalli. Safe for threads; a process that has forked makes
  # connections of its own.
  class Store
    # A server that is down is tried again after a second, as nginx does.
    OPTIONS = { socket_timeout: 1, down_retry_delay: 1 }.freeze

    # Kept from Dalli's default of packing what is long: nginx would take it,
    # others that read the store may not.
    RAW = { raw: true, compress: false }.freeze

    def initialize(config)
      @servers = config.memcached
      @options = OPTIONS.merge(config.dalli_options)
      @lock = Mutex.new
    end

    # +seconds+ until memcached forgets it, nil for Dalli's expires_in.
    def set(key, value, seconds = nil)
      done = asked('write', key) { |client| client.set(key, value, seconds, RAW) }
      raise StoreError, "memcached did not store the key #{Text.show(key)}" if done == false

      true
    end

    # Whether it was there.
    def delete(key)
      asked('delete', key) { |client| client.delete(key) } ? true : false
    end

    private

    def asked(what, key, &call)
      ready? ? call.call(@client) : first(&call)
    rescue StandardError => e
      raise StoreError, "cannot #{what} the key #{Text.show(key)}: #{e.message} (#{e.class}); " \
                        "memcached at #{@servers.join(', ')}"
    end

    def ready?
      @pid == Process.pid
    end

    # One thread at a time: Dalli makes its connections at a client's first call,
    # each of two at once its own.
    def first
      @lock.synchronize do
        unless ready?
          require 'dalli'
          @client = nil
          @client = Dalli::Client.new(@servers.dup, @options.dup)
        end
        yield @client
      ensure
        @pid = Process.pid if @client
      end
    end
  end
end
