# frozen_string_literal: true

require 'active_support/concern'

require_relative 'definition'

module NgxSendfile
  # A model whose files nginx serves by ID:
  #
  #   class Document < ApplicationRecord
  #     include NgxSendfile::Published
  #     published_as :id, path: :file_path, name: :title, if: :public?
  #   end
  #
  # After each commit the record is read anew and published, or withdrawn if
  # it is gone, its path is empty, or +if+ says no. An error does not undo what
  # is committed: it is logged, and raised only with c.raise_errors.
  module Published
    extend ActiveSupport::Concern

    included do
      class_attribute :ngx_sendfile_definition, instance_writer: false
      before_update :ngx_sendfile_remember, if: :has_changes_to_save?
      before_destroy :ngx_sendfile_remember
      after_commit :ngx_sendfile_commit
      after_rollback :ngx_sendfile_forget
    end

    class_methods do
      # A Symbol names a method, a Proc runs in the record, all else is the
      # value itself. The fields are those of NgxSendfile.publish.
      def published_as(id = :id, path:, **options)
        self.ngx_sendfile_definition = Definition.new(id, path: path, **options)
      end
    end

    # Publishes the record as it is, or withdraws it if it is not to be
    # published; raises what goes wrong.
    def publish_file
      Definition.of(self).publish(self)
    end

    # Withdraws the record; raises what goes wrong.
    def unpublish_file
      Definition.of(self).withdraw(self)
    end

    private

    # The ID in the database, before an update or a removal takes it away. A
    # new Array each time: a dup of the record has the same one.
    def ngx_sendfile_remember
      return unless ngx_sendfile_definition

      Definition.guard("the old ID of #{self.class} #{id}", raising: false) do
        @ngx_sendfile_old = [*@ngx_sendfile_old, ngx_sendfile_definition.id_in_database(self)]
      end
    end

    def ngx_sendfile_forget
      @ngx_sendfile_old = nil
    end

    def ngx_sendfile_commit
      old = Array(@ngx_sendfile_old)
      @ngx_sendfile_old = nil
      Definition.guard("#{self.class} #{id}") { Definition.of(self).committed(self, old) }
    end
  end
end
