# frozen_string_literal: true

require_relative '../ngx_sendfile'
require_relative 'rack_response'

module NgxSendfile
  # <tt>helpers NgxSendfile::Sinatra</tt>: Sinatra's send_file, with X-Sendfile
  # and the option +learn+. Files of the public folder stay as they are, and so
  # does what is sent with a status, since nginx takes the header with 200 only.
  module Sinatra
    def send_file(path, opts = {})
      return super if ngx_sendfile_leave?(opts)

      learn = Learn.seconds(opts[:learn])
      opts = opts.except(:learn)
      path = AbsolutePath.check(path)
      return ngx_sendfile_x_sendfile(path, learn, opts) if RackResponse.x_sendfile?(env, NgxSendfile.config)

      headers(Learn::HEADER => learn.to_s) if learn && File.file?(path)
      super(path, opts)
    end

    private

    def ngx_sendfile_leave?(opts)
      env['sinatra.static_file'] || (opts[:status] && Integer(opts[:status]) != 200)
    end

    # As Sinatra does it, but for the body.
    def ngx_sendfile_x_sendfile(path, learn, opts)
      ngx_sendfile_type(path, opts[:type])
      ngx_sendfile_name(path, opts)
      last_modified(opts[:last_modified]) if opts[:last_modified]
      headers('X-Sendfile' => path, 'Content-Length' => '0')
      headers(Learn::HEADER => learn.to_s) if learn
      halt(200, [])
    end

    def ngx_sendfile_type(path, type)
      return if type.nil? && response['Content-Type']

      content_type(type || File.extname(path), default: RackResponse::TYPE)
    end

    def ngx_sendfile_name(path, opts)
      disposition = opts[:disposition] || (:attachment if opts[:filename])
      return unless disposition

      attachment(opts[:filename] || path, disposition)
      # servers join the headers: beside a path that is not UTF-8, bytes
      header = response['Content-Disposition']
      headers('Content-Disposition' => header.b) if path.encoding == Encoding::BINARY
    end
  end
end
