# frozen_string_literal: true

module NgxSendfile
  # What published_as says: how a model's record becomes one of the store.
  class Definition
    LITERALS = %i[inline attachment].freeze

    # That of a record's class.
    def self.of(record)
      record.ngx_sendfile_definition || raise(
        InvalidOption, "#{record.class} does not say what to publish: write published_as path: :file_path"
      )
    end

    # Logs what goes wrong; raises it if the application wants to know.
    def self.guard(what, raising: NgxSendfile.config.raise_errors)
      yield
    rescue StandardError => e
      NgxSendfile.config.logger&.error("ngx_sendfile: #{what}: #{e.message} (#{e.class})")
      raise if raising
    end

    def initialize(id, path:, **options)
      @id = id
      @path = path
      @condition = options.delete(:if)
      @fields = options
      unknown = options.keys - RecordFields::KNOWN
      return if unknown.empty?

      raise InvalidOption, "published_as has no #{unknown.first.inspect}: write path:, if:, " \
                           "#{RecordFields.list}"
    end

    def id(record)
      value(@id, record)
    end

    # Whether it was published; else it is withdrawn, also when a method of the
    # record fails: the old one must not stay.
    def publish(record)
      id = id(record)
      return false if id.nil?

      arguments = withdrawing(id) { arguments(record) }
      return withdrawn(id) unless arguments

      path, fields = arguments
      withdrawing(id) { NgxSendfile.publish(id, path, **fields) }
    end

    def withdraw(record)
      id = id(record)
      id.nil? ? false : NgxSendfile.unpublish(id)
    end

    # After a commit: +old+ are the IDs that it had before.
    def committed(record, old)
      now = record.destroyed? ? nil : stored(record)
      # what is removed may have changes that were not saved
      current = id(now || record) unless record.destroyed? && old.any?
      steps = left(old, current).map { |id| -> { NgxSendfile.unpublish(id) } }
      steps << -> { now ? now.publish_file : withdrawn(current) }
      run(steps)
    end

    # The ID that the database has, while a change waits to be written.
    def id_in_database(record)
      return id(record) unless record.has_changes_to_save?

      before = record.dup
      before.id = record.id_in_database
      record.attributes_in_database.each { |name, value| before[name] = value }
      id(before)
    end

    private

    def left(old, current)
      old.compact.uniq(&:to_s).reject { |id| id.to_s == current.to_s }
    end

    # All of them, and then the first error.
    def run(steps)
      errors = steps.map do |step|
        step.call
        nil
      rescue StandardError => e
        e
      end
      errors.compact!
      errors.drop(1).each { |e| NgxSendfile.config.logger&.error("ngx_sendfile: #{e.message} (#{e.class})") }
      raise errors.first unless errors.empty?
    end

    # What goes to NgxSendfile.publish, nil if nothing is to be published.
    def arguments(record)
      path = value(@path, record) if @condition.nil? || value(@condition, record)
      path = path.to_path if path.respond_to?(:to_path)
      [path, @fields.transform_values { |what| value(what, record) }] unless path.to_s.empty?
    end

    # Not for an error of memcached or nginx: that would only come again.
    def withdrawing(id)
      yield
    rescue StandardError => e
      withdrawn(id) unless e.is_a?(StoreError) || e.is_a?(PurgeError)
      raise
    end

    def withdrawn(id)
      NgxSendfile.unpublish(id) unless id.nil?
      false
    end

    # As it is in the database: of several objects of one row in a transaction
    # Rails calls one only, not always the last.
    def stored(record)
      model = record.class.base_class
      return record unless model.primary_key

      model.uncached { model.unscoped.find(record.id) }
    rescue ActiveRecord::RecordNotFound
      nil
    end

    def value(what, record)
      case what
      when Symbol then LITERALS.include?(what) ? what : record.send(what)
      when Proc then what.arity.zero? ? record.instance_exec(&what) : record.instance_exec(record, &what)
      else what
      end
    end
  end
end
