# frozen_string_literal: true

require 'logger'
require 'uri'

module NgxSendfile
  # What NgxSendfile.configure yields.
  class Configuration
    # The servers as nginx has them, an Array of <tt>"host:port"</tt>,
    # <tt>"host:port:weight"</tt> or <tt>"/path/of/a/socket"</tt>.
    attr_reader :memcached

    # Further options of Dalli::Client.
    attr_reader :dalli_options

    # What makes a key of an ID: a prefix, or something with +call+.
    attr_reader :key

    # The folder of the files: absolute paths below it may be published.
    attr_reader :root

    # Where each nginx has <tt>http_sendfile_status write</tt>, an Array of URI.
    attr_reader :purge_url

    # Seconds that a purge may take to connect, and to answer.
    attr_reader :purge_timeout

    # The key of NgxSendfile.sign, in hex: a line of nginx's file of keys.
    attr_reader :signing_key

    # Whether Active Storage's blobs are published.
    attr_accessor :active_storage

    # Whether a model's error after the commit is raised once it is logged.
    attr_accessor :raise_errors

    # Whether a Rack or Sinatra application answers with X-Sendfile; nil: in
    # production.
    attr_accessor :x_sendfile

    # A Logger; that of Rails, or of the standard error output, if not set.
    attr_writer :logger

    def initialize
      @memcached = ['127.0.0.1:11211'].freeze
      @dalli_options = {}.freeze
      @key = ''
      @purge_url = [].freeze
      @purge_timeout = 2
      @default_logger = Logger.new($stderr, progname: 'ngx_sendfile')
      @raise_errors = false
      @active_storage = false
    end

    def memcached=(servers)
      list = Array(servers).map { |server| server_name(server) }
      raise InvalidOption, 'memcached has no server: write c.memcached = "127.0.0.1:11211"' if list.empty?

      @memcached = list.freeze
    end

    def dalli_options=(options)
      options = options.to_h.transform_keys(&:to_sym)
      if options.key?(:namespace)
        raise InvalidOption, 'dalli_options has a namespace: write c.key = "app:" in its place, ' \
                             'and http_sendfile_key app:$sendfile_id; in nginx'
      end

      @dalli_options = options.freeze
    end

    def key=(key)
      unless key.is_a?(String) || key.respond_to?(:call)
        raise InvalidOption, "key #{key.inspect} makes no key of an ID: " \
                             'write a prefix, or c.key = ->(id) { "file:#{id}" }' # rubocop:disable Lint/InterpolationCheck
      end

      @key = key
    end

    def root=(root)
      root = root&.to_s
      unless root.nil? || root.start_with?('/')
        raise InvalidOption, "root #{root.inspect} is not absolute: write c.root = " \
                             "#{File.expand_path(root).inspect}"
      end

      @root = root && File.expand_path(root).freeze
    end

    def purge_url=(urls)
      @purge_url = Array(urls).map { |url| parse_url(url.to_s) }.freeze
    end

    def purge_timeout=(seconds)
      unless seconds.is_a?(Numeric) && seconds.real? && seconds.positive?
        raise InvalidOption, "purge_timeout #{seconds.inspect} is no time: write seconds, such as 2 or 0.5"
      end

      @purge_timeout = seconds
    end

    # Not in any message: it is a secret.
    def signing_key=(key)
      unless key.nil? || SignedLink.key?(key)
        raise InvalidOption, 'signing_key is no key in hex: write c.signing_key = ' \
                             "a line of nginx's file, such as openssl rand -hex 32 prints"
      end

      @signing_key = key.dup.freeze
    end

    # Without the key.
    def inspect
      "#<#{self.class}>"
    end

    def logger
      @logger || (::Rails.logger if defined?(::Rails) && ::Rails.respond_to?(:logger)) ||
        @default_logger
    end

    private

    # nginx's spelling is taken as well: memcached://host:port, memcached:/socket
    def server_name(server)
      name = server.to_s.strip.delete_prefix('memcached://').delete_prefix('memcached:')
      return name.freeze if name.match?(%r{\A(/[^\s]+|[^\s/]+)\z}) && !name.include?('://')

      raise InvalidOption, "memcached #{server.inspect} is no server: " \
                           'write "host:port", "host:port:weight" or "/path/of/a/socket"'
    end

    # The host of http:///s is nil or, as uri has it since 0.12.3, empty.
    def parse_url(url)
      uri = URI.parse(url)
      return uri.freeze if uri.is_a?(URI::HTTP) && !uri.host.to_s.empty? && !uri.query && !uri.fragment

      raise URI::InvalidURIError
    rescue URI::InvalidURIError
      raise InvalidOption, "purge_url #{url.inspect} is no URL of nginx: write " \
                           '"http://127.0.0.1:8081/sendfile-status", the location that has http_sendfile_status write'
    end
  end
end
