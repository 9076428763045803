internal import AnnalsCore
internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import RelayLog

/// Creates and describes spaces, and serves the relay's health.
struct SpaceRoutes: Sendable {
    let log: RelayLog
    let readiness: Readiness
    /// The limits of new spaces for one token, and for one address.
    let rate: RateLimit
    let addressRate: RateLimit

    /// PUT /v1/spaces/{space}: 201 with its description; 409 with the description if the space exists.
    func create(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let name = try context.space(for: .write)
        // An operator of the whole relay can also delete spaces, so no limit applies.
        let owner = context.access.isOperator ? nil : context.access.owner
        do {
            if owner != nil {
                guard try await !log.has(name) else { throw RelayLogError.spaceExists }
                try rate.take(context.rateKey)
                if let network = PeerNetwork.name(of: context.address) { try addressRate.take(.address(network)) }
            }
            return JSONBody.response(
                try await log.createSpace(name, by: owner), status: .created, headers: [.location: Endpoints.space(name)])
        } catch RelayLogError.spaceExists {
            throw ProblemResponse(Problem(.spaceExists), space: try await log.describe(name))
        }
    }

    /// GET /v1/spaces/{space}
    func describe(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        JSONBody.response(try await log.describe(try context.space(for: .read)))
    }

    /// GET /health/live
    func live(_ request: Request, _ context: RelayRequestContext) -> Response {
        JSONBody.response(["status": "live"])
    }

    /// GET /health/ready: 503 while the storage does not answer, the disk's reserve is reached, or the relay is
    /// stopping.
    func ready(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        do {
            try await readiness.check()
            return JSONBody.response(["status": "ready"])
        } catch RelayLogError.storage(let reason) {
            context.logger.error("not ready", metadata: ["reason": "\(reason)"])
            throw ProblemResponse.unavailable("The storage does not answer", retryAfterSeconds: 5)
        } catch RelayLogError.databaseAway(let reason) {
            context.logger.error("not ready", metadata: ["reason": "\(reason)"])
            throw ProblemResponse.unavailable("The database does not answer", retryAfterSeconds: 5)
        } catch RelayLogError.diskReserved {
            context.logger.error("not ready", metadata: ["reason": "the disk's reserve is reached"])
            throw ProblemResponse.unavailable("The disk's reserve is reached", retryAfterSeconds: 60)
        }
    }
}
