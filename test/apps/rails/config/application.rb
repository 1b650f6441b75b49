# frozen_string_literal: true

require "action_controller/railtie"
require_relative "../lib/count_requests"

module Archive
  class Application < Rails::Application
    config.load_defaults 6.1
    config.root = File.expand_path("..", __dir__)
    config.eager_load = true
    config.hosts.clear
    config.secret_key_base = "the secret of a test " * 4
    config.session_store :cookie_store, key: "_archive_session"
    config.logger = ActiveSupport::Logger.new($stdout)
    config.log_level = :info

    # nginx sends what send_file names
    config.action_dispatch.x_sendfile_header = "X-Sendfile"

    config.middleware.insert_before 0, CountRequests
  end
end
