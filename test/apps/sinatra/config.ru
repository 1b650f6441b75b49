# frozen_string_literal: true

require_relative "archive"

run Archive
