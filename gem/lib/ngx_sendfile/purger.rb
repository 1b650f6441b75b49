# frozen_string_literal: true

require 'net/http'

module NgxSendfile
  # Makes each nginx forget what its cache has: http_sendfile_status write.
  class Purger
    # without a user, a fragment, spaces
    LEARNED = %r{\A(?<base>https?://[^\x00-\x20\x7f/?\#@:][^\x00-\x20\x7f/?\#@]*)
                 (?<target>(?:[/?][^\x00-\x20\x7f\#]*)?)\z}inx

    def initialize(config)
      @urls = config.purge_url
      @timeout = config.purge_timeout
    end

    def purge(key)
      return if @urls.empty?

      if key.split('/').any? { |segment| %w[. ..].include?(segment) }
        raise PurgeError, "the key #{Text.show(key)} has a segment \"..\" or \".\", which leads out of the " \
                          'location: write NgxSendfile.purge_all'
      end

      delete("/cache/#{encode(key)}")
    end

    def purge_url(url)
      delete("/cache?url=#{encode(learned_url(url))}")
    end

    def purge_all
      delete('/cache')
    end

    private

    # An answer is known by the URL's bytes; no client sends what is refused here.
    def learned_url(url)
      text = Text.bytes(url)
      match = LEARNED.match(text)
      return "#{match[:base]}#{'/' unless match[:target].start_with?('/')}#{match[:target]}" if match

      shown = Text.show(url.to_s.sub(%r{//[^/]*@}, '//'))
      raise InvalidOption, "url #{shown} is none that a client asks for: write all of it, " \
                           'such as "https://www.example.com/documents/7"'
    end

    # All are asked, also if one has failed.
    def delete(path)
      errors = @urls.map { |url| error_of(url, path) }.compact
      raise PurgeError, errors.join('; ') unless errors.empty?
    end

    def error_of(url, path)
      answer = request(url, "#{url.path.chomp('/')}#{path}")
      return if answer.is_a?(Net::HTTPOK)

      "cannot purge #{where(url)}#{path}: the answer is #{answer.code}; " \
        'that location needs http_sendfile_status write'
    rescue StandardError => e
      "cannot purge #{where(url)}#{path}: #{e.message} (#{e.class})"
    end

    # Never through a proxy of the environment.
    def request(url, path)
      ask = Net::HTTP::Delete.new(path)
      ask.basic_auth(*[url.user, url.password].map { |text| decode(text.to_s) }) if url.user
      Net::HTTP.start(url.hostname, url.port, nil, **options(url)) { |http| http.request(ask) }
    end

    def options(url)
      { use_ssl: url.scheme == 'https', max_retries: 0,
        open_timeout: @timeout, read_timeout: @timeout, write_timeout: @timeout }
    end

    # without a password
    def where(url)
      "#{url.scheme}://#{url.host}:#{url.port}#{url.path.chomp('/')}"
    end

    def decode(text)
      text.gsub(/%\h\h/) { |code| code.delete_prefix('%').hex.chr }
    end

    def encode(key)
      Text.bytes(key).gsub(/[^A-Za-z0-9]/n) { |byte| format('%%%02X', byte.ord) }
    end
  end
end
