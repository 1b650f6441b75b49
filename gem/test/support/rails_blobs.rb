# frozen_string_literal: true

# Boots a Rails application with Active Storage, does what the steps say with a
# blob, and prints what memcached has after each of them as JSON.
#
# usage: rails_blobs.rb MEMCACHED ON STEP...

require 'dalli'
require 'json'
require 'logger'
require 'tmpdir'
require 'fileutils'
require 'rails'
require 'active_record/railtie'
require 'action_controller/railtie'
require 'active_storage/engine'
require 'ngx_sendfile'

ENV['DATABASE_URL'] = 'sqlite3::memory:'
FOLDER = Dir.mktmpdir
at_exit { FileUtils.rm_rf(FOLDER) }

# The application.
class App < Rails::Application
  config.root = FOLDER
  config.load_defaults 6.1
  config.secret_key_base = 'a' * 64
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.active_storage.service = :local
  config.active_storage.service_configurations = {
    local: { service: 'Disk', root: File.join(FOLDER, 'storage') }
  }
end

address, on, *steps = ARGV
NgxSendfile.configure do |c|
  c.memcached = address
  c.key = 'file:'
  c.active_storage = on == 'on'
end
App.initialize!

ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table(:active_storage_blobs) do |t|
    t.string :key, :filename, :content_type, :service_name, :checksum
    t.text :metadata
    t.bigint :byte_size
    t.datetime :created_at
  end
  create_table(:active_storage_attachments) do |t|
    t.string :name, :record_type
    t.bigint :record_id, :blob_id
    t.datetime :created_at
  end
  create_table(:active_storage_variant_records) do |t|
    t.bigint :blob_id
    t.string :variation_digest
  end
end

def moved(blob, service)
  blob.update_columns(service_name: service)
  blob.touch(:created_at)
  ActiveStorage::Blob.find(blob.id)
end

# What one can do with a blob.
STEPS = {
  'create' => lambda do |_|
    ActiveStorage::Blob.create_and_upload!(io: StringIO.new('x'), filename: 'a/b: c.png',
                                           content_type: 'image/png', identify: false)
  end,
  'html' => ->(blob) { blob.tap { |b| b.update!(content_type: 'text/html') } },
  'rollback' => lambda do |blob|
    ActiveStorage::Blob.transaction do
      blob.update!(content_type: 'image/gif')
      raise ActiveRecord::Rollback
    end
    blob.reload
  end,
  'gone' => ->(blob) { moved(blob, 'gone') },
  'back' => ->(blob) { moved(blob, 'local') },
  'purge' => ->(blob) { blob.tap(&:purge) }
}.freeze

client = Dalli::Client.new(address)
blob = nil
seen = steps.map do |step|
  blob = STEPS.fetch(step).call(blob)
  client.get("activestorage:#{blob.id}", raw: true)
end
puts JSON.generate('id' => blob.id, 'key' => blob.key, 'seen' => seen)
