# frozen_string_literal: true

require 'rack'

require_relative 'absolute_path'
require_relative 'learn'
require_relative 'record_fields'

module NgxSendfile
  # An answer of a Rack application that is a file.
  class RackResponse
    TYPE = 'application/octet-stream'

    # What the environment says of the process, in the order of Sinatra.
    def self.production?
      (ENV['APP_ENV'] || ENV['RACK_ENV'] || ENV.fetch('RAILS_ENV', nil)) == 'production'
    end

    # Whether nginx, or another server in front, is to send the file.
    # <tt>sendfile.type</tt> is set by the server or a middleware, never by a
    # client.
    def self.x_sendfile?(env, config)
      type = env['sendfile.type']
      return type.casecmp?('X-Sendfile') if type && !type.empty?

      config.x_sendfile.nil? ? production? : config.x_sendfile
    end

    # A Hash of headers for this version of Rack, whatever the case of letters.
    def self.headers(from = {})
      return ::Rack::Headers.new.merge!(from) if defined?(::Rack::Headers)

      ::Rack::Utils::HeaderHash.new(from)
    end

    def initialize(env, path, learn: nil, headers: {}, **fields)
      @env = env
      @path = AbsolutePath.check(path)
      @learn = Learn.seconds(learn)
      @fields = RecordFields.check(fields)
      @headers = headers
    end

    # The status, headers and body; the headers with their case.
    def to_a(config)
      return x_sendfile if self.class.x_sendfile?(@env, config)
      return failed(404, 'File not found') unless File.file?(@path)
      return failed(403, 'File not readable') unless File.readable?(@path)

      file
    end

    private

    def x_sendfile
      headers = own_headers
      headers['X-Sendfile'] = @path
      headers['Content-Length'] = '0'
      [200, headers, []]
    end

    # Ranges and conditions are those of Rack; the body has +to_path+, so a
    # Rack::Sendfile further out works as well.
    def file
      files = ::Rack::Files.new(nil, spelled(own_headers), TYPE)
      status, headers, body = files.serving(::Rack::Request.new(@env), @path)
      [status, self.class.headers(headers), body]
    end

    def own_headers
      headers = self.class.headers(@headers)
      type = @fields['type'] || type_of_name
      headers['Content-Type'] = type if type
      headers['Content-Disposition'] = disposition if @fields['name'] || @fields['disposition']
      headers[Learn::HEADER] = @learn.to_s if @learn
      headers
    end

    # Rack 2 merges headers with their case, "Content-Type" of a plain Hash.
    def spelled(headers)
      headers.to_h
    end

    # nil if it is not known: nginx may know it.
    def type_of_name
      ::Rack::Mime.mime_type(File.extname(@fields['name'] || @path), nil)
    end

    def disposition
      kind = @fields['disposition'] || 'inline'
      name = @fields['name']&.tr('/\\', '_')
      return kind unless name

      plain = name.gsub(/[^\x20-\x7e]/, '_').gsub('"', '\\"')
      return "#{kind}; filename=\"#{plain}\"" if name.ascii_only?

      "#{kind}; filename=\"#{plain}\"; filename*=UTF-8''#{encode(name)}"
    end

    # attr-char of RFC 5987
    def encode(name)
      Text.bytes(name).gsub(/[^A-Za-z0-9!$&#+.^_`|~-]/n) { |byte| format('%%%02X', byte.ord) }
    end

    def failed(status, text)
      headers = self.class.headers('Content-Type' => 'text/plain', 'Content-Length' => (text.size + 1).to_s)
      [status, headers, ["#{text}\n"]]
    end
  end
end
