# frozen_string_literal: true

require_relative 'ngx_sendfile/version'
require_relative 'ngx_sendfile/errors'
require_relative 'ngx_sendfile/text'
require_relative 'ngx_sendfile/learn'
require_relative 'ngx_sendfile/configuration'
require_relative 'ngx_sendfile/publisher'

# The application's side of the nginx module ngx_sendfile.
module NgxSendfile
  autoload :Published, File.join(__dir__, 'ngx_sendfile/published')
  autoload :PublishedBlob, File.join(__dir__, 'ngx_sendfile/published_blob')
  autoload :RackResponse, File.join(__dir__, 'ngx_sendfile/rack_response')
  autoload :SignedLink, File.join(__dir__, 'ngx_sendfile/signed_link')
  autoload :Sinatra, File.join(__dir__, 'ngx_sendfile/sinatra')

  @lock = Mutex.new
  @publisher = Publisher.new(Configuration.new.freeze)

  class << self
    # Yields the Configuration; what is not set stays as it was.
    def configure
      @lock.synchronize do
        config = @publisher.config.dup
        yield config
        @publisher = Publisher.new(config.freeze)
      end
      nil
    end

    def config
      @publisher.config
    end

    # Tells nginx which file an ID is, and lets its cache forget what it knew.
    #
    # +path+:: relative to the folder of the files, or absolute below c.root
    # +name+:: that a browser shows and saves under
    # +type+:: Content-Type
    # +disposition+:: inline, which is the default, or attachment
    # +headers+:: Hash of response headers
    # +expires+:: a time, or a duration from now on: then it is withdrawn
    # +purge+:: false leaves nginx's cache alone, for a first import
    #
    # Raises InvalidKey, InvalidRecord, StoreError, or PurgeError (it is stored).
    def publish(id, path, purge: true, **fields)
      @publisher.publish(id, path, purge: purge, **fields)
    end

    # Withdraws an ID; returns whether memcached had it.
    #
    # Raises InvalidKey, StoreError, or PurgeError (it is withdrawn).
    def unpublish(id, purge: true)
      @publisher.unpublish(id, purge: purge)
    end

    # Lets the caches of nginx forget an ID, or what was learned for a URL.
    #
    # +url+:: in place of the ID, all of it, as clients ask for it
    #
    # Raises InvalidKey, InvalidOption, PurgeError.
    def purge(id = nil, url: nil)
      @publisher.purge(id, url: url)
    end

    # Lets the caches of nginx forget everything.
    def purge_all
      @publisher.purge_all
    end

    # A link that nginx itself checks, by http_sendfile_signature hmac.
    #
    # +url+:: with or without scheme and host, which are not signed
    # +expires_in+:: seconds, or a duration; or
    # +expires_at+:: a time; without either it is good for ever
    # +address+:: of the only client that may use it, as $remote_addr has it
    # +key+:: in hex; that of c.signing_key by default
    #
    # Returns the URL with its signature. Raises InvalidOption.
    def sign(url, key: nil, **options)
      SignedLink.new(key || config.signing_key).sign(url, **options)
    end

    # The answer of a Rack application that is a file: X-Sendfile for nginx,
    # or the file itself where there is none in front, see c.x_sendfile.
    #
    # +path+:: absolute
    # +learn+:: how long nginx may answer this URL without the application
    # +name+, +type+, +disposition+:: as for publish
    # +headers+:: further headers
    #
    # Returns the status, headers and body. Raises InvalidOption.
    def send_file(env, path, **options)
      RackResponse.new(env, path, **options).to_a(config)
    end
  end
end

require_relative 'ngx_sendfile/railtie' if defined?(Rails::Railtie)
