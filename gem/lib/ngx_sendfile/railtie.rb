# frozen_string_literal: true

require 'rails/railtie'
begin
  # before ours, since it sets the header to nil
  require 'action_dispatch/railtie'
rescue LoadError
  # a Rails without Action Pack sends no files
end

require_relative '../ngx_sendfile'
require_relative 'controller'

module NgxSendfile
  # send_file and Rack::Sendfile answer with X-Sendfile, unless the application
  # says something else, such as nil.
  class Railtie < ::Rails::Railtie
    # Not in an initializer: what the application or its environment writes
    # comes later, and so wins.
    config.action_dispatch.x_sendfile_header ||= 'X-Sendfile' if config.respond_to?(:action_dispatch)

    ActiveSupport.on_load(:action_controller) { include NgxSendfile::Controller }

    # the class is loaded when the application is initialized, or later
    ActiveSupport.on_load(:active_storage_blob) do
      include NgxSendfile::PublishedBlob if NgxSendfile.config.active_storage
    end
  end
end
