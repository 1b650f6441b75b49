# frozen_string_literal: true

require 'openssl'

module NgxSendfile
  # Links that http_sendfile_signature hmac takes.
  class SignedLink
    URL = %r{\A(?<base>https?://[^\x00-\x20\x7f/?\#]+)?(?<target>(?:/[^\x00-\x20\x7f\#]*)?)\z}in
    LAST = (10**18) - 1
    KEY = /\A(?:\h\h){1,1024}\z/

    def self.key?(key)
      key.is_a?(String) && key.match?(KEY)
    end

    def initialize(key)
      unless self.class.key?(key)
        raise InvalidOption, 'no key in hex to sign with: set c.signing_key, or write key: with ' \
                             "a line of nginx's file of keys"
      end

      @key = [key].pack('H*')
    end

    # Without the key.
    def inspect
      "#<#{self.class}>"
    end

    def sign(url, expires_in: nil, expires_at: nil, address: nil)
      base, target = parts(url)
      until_ = moment(expires_in, expires_at)
      target = with(url, target, 'expires', until_.to_s) if until_
      text = address ? "#{target}\n#{address}" : target
      "#{base}#{with(url, target, 'signature', code(text))}"
    end

    private

    # as a client sends them, so percent-encoded
    def parts(url)
      match = URL.match(Text.bytes(url)) if url.to_s.ascii_only? && !url.to_s.empty?
      return [match[:base], match[:target].empty? ? '/' : match[:target]] if match

      raise InvalidOption, "url #{Text.show(url)} is none that a client asks for: write its path, percent-encoded, " \
                           'such as "/file/7", or all of it'
    end

    def moment(expires_in, expires_at)
      raise InvalidOption, 'expires_in and expires_at say the same: write one of them' if expires_in && expires_at

      at = expires_in ? later(expires_in) : expires_at
      return if at.nil?

      seconds = seconds_of(at)
      return seconds if seconds.between?(0, LAST)

      raise InvalidOption, "expires_at #{Text.show(at.inspect)} is no time: write a Time, or expires_in: 3600"
    end

    def later(seconds)
      Time.now + seconds
    rescue TypeError
      raise InvalidOption, "expires_in #{Text.show(seconds.inspect)} is no time: write seconds, such as 3600"
    end

    # of a DateTime, or what Rails has for a time, as well; a String is none
    def seconds_of(value)
      return value.to_i if value.is_a?(Time) || value.is_a?(Integer)

      value.respond_to?(:to_time) && !value.is_a?(String) ? value.to_time.to_i : -1
    end

    def with(url, target, name, value)
      path, query = target.split('?', 2)
      if query.to_s.split('&').any? { |pair| pair.split('=', 2).first == name }
        raise InvalidOption, "url #{Text.show(url)} has an argument #{name.inspect} already"
      end

      "#{path}?#{"#{query}&" if query}#{name}=#{value}"
    end

    def code(text)
      [OpenSSL::HMAC.digest('SHA256', @key, text)].pack('m0').tr('+/', '-_').delete('=')
    end
  end
end
