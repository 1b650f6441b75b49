# frozen_string_literal: true

# Runs all tests: ruby gem/test/run.rb

$LOAD_PATH.unshift(File.expand_path('../lib', __dir__))

Dir[File.join(__dir__, 'test_*.rb')].each { |file| require file }
