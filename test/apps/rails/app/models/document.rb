# frozen_string_literal: true

# A file and its ID. In real life this is an ActiveRecord model.
class Document
  class NotFound < StandardError; end

  FOLDER = ENV.fetch("APP_FILES")

  def self.find(id)
    catalog = JSON.parse(File.read(File.join(FOLDER, "catalog.json")))
    new(catalog.fetch(id) { raise NotFound, id })
  end

  def initialize(row)
    @row = row
  end

  def path
    File.join(FOLDER, @row["path"])
  end
end
