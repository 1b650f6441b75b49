# frozen_string_literal: true

# Blobs and tracked variants as Rails itself keeps them:
#
#     ruby rails_variants.rb DATABASE ROOT FOLDER
#
# an SQLite database, the disk service's root, a folder for the application. What makes an image smaller is replaced by
# something that needs no library. Writes, as JSON, what Rails knows of each:
#
#     {"id":, "key":, "body":, "variants": [{"digest":, "key":, "body":}]}

ENV['DATABASE_URL'] = "sqlite3:#{ARGV.fetch(0)}"

require 'json'
require 'rails'
require 'action_controller/railtie'
require 'active_record/railtie'
require 'active_storage/engine'

# The application.
class App < Rails::Application
  config.root = ARGV.fetch(2)
  config.load_defaults 6.1
  config.secret_key_base = 'a' * 64
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.active_job.queue_adapter = :inline
  config.active_storage.service = :local
  config.active_storage.service_configurations = { local: { service: 'Disk', root: ARGV.fetch(1) } }
end
App.initialize!

# In place of ImageMagick or libvips.
class Shortened < ActiveStorage::Transformers::Transformer
  private

  def process(file, format:)
    output = Tempfile.new(['shortened', ".#{format}"], binmode: true)
    output.write("#{transformations.sort.inspect} of #{file.read}")
    output.rewind
    output
  end
end

ActiveStorage::Variation.class_eval do
  private

  def transformer
    Shortened.new(transformations.except(:format))
  end
end

migrations = "#{Gem.loaded_specs.fetch('activestorage').gem_dir}/db/migrate"
ActiveRecord::Migration.suppress_messages do
  ActiveRecord::MigrationContext.new(migrations, ActiveRecord::SchemaMigration).migrate
end

variations = [{ resize_to_limit: [100, 100] }, { resize_to_fill: [40, 40] }]
# a digest is base64, and some have its "/"
with_slash = (1..).lazy.map { |n| { resize_to_limit: [n, n] } }.find do |transformations|
  ActiveStorage::Variation.wrap(transformations).default_to(format: 'png').digest.include?('/')
end
blobs = 2.times.map do |n|
  ActiveStorage::Blob.create_and_upload!(io: StringIO.new("picture #{n}"), filename: "#{n} é.png",
                                         content_type: 'image/png', identify: false)
end
told = blobs.map do |blob|
  variants = [*variations, with_slash].map do |transformations|
    variant = blob.variant(transformations).processed
    { digest: variant.variation.digest, key: variant.key, body: variant.download }
  end
  { id: blob.id, key: blob.key, body: blob.download, variants: variants }
end
puts JSON.generate(told)
