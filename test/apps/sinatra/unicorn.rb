# frozen_string_literal: true

worker_processes 1
preload_app true
listen ENV.fetch("APP_SOCKET")
