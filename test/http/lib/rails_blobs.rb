# frozen_string_literal: true

# Active Storage of Rails itself, served by puma: ROOT has the files of its disk
# service, FOLDER all else, among that the database app.sqlite3. PICTURES blobs
# and one of each content type of TYPES are made. Writes one line of JSON:
#
#     {"port":, "key":, "page": "/page", "pictures": [URLs],
#      "types": {"text/html": {"id":, "key":, "redirect": URL, "proxy": URL}, ...},
#      "variant": {"id":, "key":, "redirect": URL, "proxy": URL}}
#
# and ends when its input does. GET /count says how many requests there were,
# not counting those of /count; DELETE /blob/ID destroys a blob.

ROOT, FOLDER, PICTURES, TYPES = ARGV
ENV['DATABASE_URL'] = "sqlite3:#{FOLDER}/app.sqlite3"

require 'json'
require 'rails'
require 'action_controller/railtie'
require 'active_record/railtie'
require 'active_storage/engine'
require 'puma'
require 'puma/server'

# Counts what Rails is asked.
class Count
  class << self
    attr_accessor :requests
  end
  self.requests = 0
  LOCK = Mutex.new

  def initialize(app)
    @app = app
  end

  def call(env)
    return [200, {}, [Count.requests.to_s]] if env['PATH_INFO'] == '/count'

    LOCK.synchronize { Count.requests += 1 }
    @app.call(env)
  end
end

# The application.
class App < Rails::Application
  config.root = FOLDER
  config.load_defaults 6.1
  config.secret_key_base = 'a' * 64
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.hosts.clear
  config.active_job.queue_adapter = :test
  config.active_storage.service = :local
  config.active_storage.service_configurations = { local: { service: 'Disk', root: ROOT } }
  config.middleware.insert_before 0, Count
  routes.append do
    get '/page', to: 'pages#show'
    delete '/blob/:id', to: 'pages#destroy'
  end
end

App.initialize!
ActiveRecord::Base.connection.execute('PRAGMA journal_mode=WAL')

# A page of all pictures.
class PagesController < ActionController::Base
  skip_forgery_protection

  def show
    urls = ActiveStorage::Blob.where("filename LIKE 'picture%'").order(:id).map { |blob| rails_blob_path(blob) }
    render html: urls.map { |url| %(<img src="#{url}">) }.join("\n").html_safe
  end

  def destroy
    ActiveStorage::Blob.find(params[:id]).purge
    head :no_content
  end
end

ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table :active_storage_blobs do |t|
    t.string :key, null: false
    t.string :filename, null: false
    t.string :content_type
    t.text :metadata
    t.string :service_name, null: false
    t.bigint :byte_size, null: false
    t.string :checksum, null: false
    t.datetime :created_at, null: false
    t.index [:key], unique: true
  end
  create_table :active_storage_attachments do |t|
    t.string :name, null: false
    t.references :record, null: false, polymorphic: true, index: false
    t.references :blob, null: false
    t.datetime :created_at, null: false
  end
  create_table :active_storage_variant_records do |t|
    t.belongs_to :blob, null: false, index: false
    t.string :variation_digest, null: false
  end
end

def blob(filename, type, text)
  ActiveStorage::Blob.create_and_upload!(io: StringIO.new(text), filename: filename, content_type: type, identify: false)
end

def urls(blob)
  url = App.routes.url_helpers
  { id: blob.id, key: blob.key, redirect: url.rails_blob_path(blob, only_path: true),
    old: url.rails_blob_path(blob, only_path: true).sub('/redirect/', '/'),
    proxy: url.rails_service_blob_proxy_path(blob.signed_id, blob.filename) }
end

made = (1..PICTURES.to_i).map { |n| blob("picture #{n}.png", 'image/png', "picture #{n}\n") }
others = TYPES.split(',').to_h { |type| [type, urls(blob("some: #{type}", type, "a file of #{type}\n"))] }

# as Rails leaves it when it has made the variant
original = blob('original.png', 'image/png', "original\n")
variation = original.variant(resize_to_limit: [100, 100], format: 'png').variation
record = ActiveStorage::VariantRecord.create!(blob_id: original.id, variation_digest: variation.digest)
record.image.attach(io: StringIO.new("variant\n"), filename: 'original.png', content_type: 'image/png', identify: false)
url = App.routes.url_helpers
names = [original.signed_id, variation.key, original.filename]
variant = { id: original.id, key: record.image.blob.key, variation: variation.key,
            redirect: url.rails_blob_representation_path(*names),
            proxy: url.rails_blob_representation_proxy_path(*names) }

server = Puma::Server.new(App)
server.add_tcp_listener('127.0.0.1', 0)
server.run
$stdout.puts JSON.generate(
  port: server.connected_ports.first, key: App.key_generator.generate_key('ActiveStorage').unpack1('H*'),
  page: '/page', pictures: made.map { |one| urls(one)[:redirect] }, types: others, variant: variant
)
$stdout.flush
$stdin.read
server.stop(true)
