import AnnalsCore

/// What a join that creates a space does with strong suggestions that nobody decided about.
public enum SuggestedReferences: String, Sendable, CaseIterable {
    /// They become references of the space.
    case accept
    /// They are decided to be no references.
    case ignore
}

extension Store {
    /// The strong suggestions whose parents a merge may renumber. Undecided, they could leave rows at another parent.
    private func undecidedReferences() async throws -> [ReferenceSuggestion] {
        try await suggestReferences().filter { $0.strength == .strong && $0.isRenumbered }
    }

    /// Decides about the suggestions, before the store creates a space.
    ///
    /// - Throws: `AnnalsError` with code `schemaRefused` if there are any and `choice` is nil.
    package func decideReferences(_ choice: SuggestedReferences?) async throws {
        guard let choice else { return try await requireDecidedReferences() }
        let suggestions = try await undecidedReferences()
        guard !suggestions.isEmpty else { return }
        try await setReferences(
            suggestions.map { choice == .accept ? $0.setting : ReferenceSetting(table: $0.table, columns: $0.columns, .none) })
    }

    /// - Throws: `AnnalsError` with code `schemaRefused` if a strong suggestion is undecided.
    package func requireDecidedReferences() async throws {
        let suggestions = try await undecidedReferences()
        guard let first = suggestions.first else { return }
        let names = suggestions.map(\.setting.text).joined(separator: ", ")
        let child = "\(first.table).\(first.columns.joined(separator: ","))"
        let parent = "\(first.target.table).\(first.target.columns.joined(separator: ","))"
        throw AnnalsError(
            .schemaRefused, operation: "join",
            "columns look like references that the schema does not declare, and a sync may renumber what they refer to: \(names)",
            hint:
                "Decide about each of them with setReferences(_:) before the store creates a space: a reference or none. Nothing was "
                + "changed",
            commandHint:
                "annals reference \(path) add \(child) \(parent), or none \(child), decides about one; join with --references accept or "
                + "ignore decides about all. Nothing was changed")
    }
}
