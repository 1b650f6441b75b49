# frozen_string_literal: true

require_relative "config/application"

Rails.application.initialize!
run Rails.application
