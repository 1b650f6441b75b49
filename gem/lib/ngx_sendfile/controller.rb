# frozen_string_literal: true

require_relative 'learn'

module NgxSendfile
  # In ActionController: the option +learn+ of send_file.
  module Controller
    private

    # <tt>learn: 10.minutes</tt> lets nginx answer this URL by itself for that
    # time, to everybody who asks, without the application. What browsers and
    # CDNs may keep is not changed.
    def send_file(path, options = {})
      seconds = Learn.seconds(options[:learn])
      sent = super(path, options.except(:learn))
      if response.status != 200
        self.response_body = ngx_sendfile_body(path)
      elsif seconds
        response.set_header(Learn::HEADER, seconds.to_s)
      end
      sent
    end

    # An error page: nginx takes X-Sendfile of an answer 200 only, so this
    # body has no path that Rack::Sendfile could see.
    def ngx_sendfile_body(path)
      Enumerator.new do |body|
        File.open(path, 'rb') do |file|
          while (part = file.read(16_384))
            body << part
          end
        end
      end
    end
  end
end
