# frozen_string_literal: true

require 'active_record'

ActiveRecord::Base.establish_connection(adapter: 'sqlite3', database: ':memory:')
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table(:documents) do |table|
    table.string :type
    table.string :path
    table.string :title
    table.boolean :secret
    table.datetime :gone_at
  end
  create_table(:pages) do |table|
    table.string :slug
    table.string :path
  end
  create_table(:others) { |table| table.string :path }
end

# With all that published_as takes.
class Document < ActiveRecord::Base
  include NgxSendfile::Published

  published_as :id, path: :path, name: :title, type: 'text/plain', disposition: :attachment,
                    headers: -> { { 'ETag' => "\"#{id}\"" } }, expires: :gone_at, if: ->(document) { !document.secret }
end

# A model of the same table.
class Report < Document
  published_as :id, path: :path
end

# Published under what can change.
class Page < ActiveRecord::Base
  include NgxSendfile::Published

  published_as -> { slug && "page:#{slug}" }, path: -> { Pathname(path) if path }
end

# Lacks published_as.
class Other < ActiveRecord::Base
  include NgxSendfile::Published
end
