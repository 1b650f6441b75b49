# frozen_string_literal: true

require_relative 'published'

module NgxSendfile
  # Active Storage's blobs, for nginx's http_sendfile_activestorage with "blobs":
  #
  #   NgxSendfile.configure { |c| c.active_storage = true }
  #
  # As Published does it with other models, under activestorage:ID, whatever
  # c.key makes of IDs. What is not on a disk of this machine's is not published.
  module PublishedBlob
    extend ActiveSupport::Concern
    include Published

    PREFIX = 'activestorage:'

    # The path is relative to the root of the service. Type and disposition are
    # by the application's own lists; before Rails 6.1 nginx has Rails'.
    included do
      published_as ->(blob) { Key.new("#{PREFIX}#{blob.id}") },
                   path: -> { service.path_for(key).delete_prefix("#{service.root}/") },
                   name: -> { filename.sanitized },
                   type: -> { respond_to?(:content_type_for_serving) ? content_type_for_serving : content_type },
                   disposition: -> { ngx_sendfile_disposition },
                   if: -> { service.respond_to?(:path_for) && service.respond_to?(:root) }
    end

    private

    def ngx_sendfile_disposition
      return unless respond_to?(:forced_disposition_for_serving)

      forced_disposition_for_serving || :inline
    end
  end
end
