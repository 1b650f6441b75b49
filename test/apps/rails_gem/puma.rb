# frozen_string_literal: true

environment "production"
workers 0
threads 2, 2
bind "unix://#{ENV.fetch('APP_SOCKET')}"
