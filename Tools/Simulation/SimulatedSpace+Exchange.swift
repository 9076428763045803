import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire

/// Exchanges with the relay, over a network that loses, repeats, delays and reorders messages.
extension SimulatedSpace {
    func beginExchange(_ number: Int, _ step: Int, _ direction: Step.Direction) async throws {
        let replica = replicas[number]
        // A store has one agent at a time.
        guard let store = replica.store, replica.exchange == nil else { return }
        let dice = Identities(Dice(seed: plan.seed, 7, UInt64(step)))
        let session = Session(store: store, direction: direction.product) { Double(dice.next() >> 11) / Double(1 << 53) }
        replica.exchange = Replica.Exchange(session: session, step: step)
        replica.exchange?.mayFindRestored = replica.lostLog != nil
        replica.downloaded = nil
        try await proceed(number, after: .seal)
    }

    /// Waits until the exchange stops, checks its effects, and schedules the next event.
    private func proceed(_ number: Int, after cause: Cause) async throws {
        let replica = replicas[number]
        guard let exchange = replica.exchange else { return }
        let stop = await exchange.session.nextStop()
        if case .finished = stop { replica.exchange = nil }
        try observe(replica, after: cause)
        switch stop {
        case .request(let request):
            replica.exchange?.requests += 1
            replica.exchange?.isWaiting = true
            replica.exchange?.isLastPart = request.isLastPart
            send(request, from: number, step: exchange.step, number: exchange.requests + 1)
        case .pause(let duration):
            replica.exchange?.requests += 1
            replica.exchange?.isWaiting = true
            let event = Event.reply(replica: number, step: exchange.step, request: exchange.requests + 1, .goOn)
            queue.add(event, at: time.now + max(1, duration.milliseconds))
        case .finished(let result):
            try finish(replica, exchange, result)
        }
    }

    private func finish(_ replica: Replica, _ exchange: Replica.Exchange, _ result: Result<SyncAgent.Summary, AnnalsError>) throws {
        try checkRestored(replica, exchange, result)
        switch result {
        case .success(let summary):
            trace.note(
                "+\(time.now) \(replica.name) synced: pushed \(summary.pushed.transactions), pulled \(summary.pulled.transactions), "
                    + "conflicts \(summary.conflicts), position \(summary.position), outbox \(summary.outbox)")
        case .failure(let error):
            trace.note("+\(time.now) \(replica.name) did not sync: \(error.code)")
            if replica.power.isDead { return }
            // The error was reported already, or the rows became unverified while the exchange was under way.
            if error.code == .relayRolledBack || (error.code == .busy && replica.mayHoldUnseen) { return }
            if error.code == .expired, isStranded(replica) { return replica.reportsLostLog = true }
            if network.explains(error.code) || Faults.all.contains(where: { $0.explains(error, in: self) }) { return }
            guard replica.cutUntil > 0 || restoredHead != nil, [.relayUnreachable, .relayOverloaded].contains(error.code) else {
                throw Violation("sync", "\(replica.name) cannot sync: \(error)")
            }
        }
    }

    // MARK: Requests

    private func send(_ request: Session.Request, from replica: Int, step: Int, number: Int) {
        let outcome = RequestOutcome(network, seed: plan.seed, step: step, request: number)
        if !isCut(replica), let arriving = outcome.onTheWay(request) {
            let arrival = Event.arrival(replica: replica, step: step, request: number, arriving, outcome, isCopy: false)
            queue.add(arrival, at: time.now + outcome.there)
        } else {
            lose(replica, step, number, wasSent: !isCut(replica))
        }
        for later in outcome.copies {
            let copy = Event.arrival(replica: replica, step: step, request: number, lasting(request, step, number), outcome, isCopy: true)
            queue.add(copy, at: time.now + outcome.there + later)
        }
    }

    private func isCut(_ replica: Int) -> Bool { time.now < replicas[replica].cutUntil }

    private func lose(_ replica: Int, _ step: Int, _ number: Int, wasSent: Bool) {
        let reply = Session.Reply.failed(.unreachable("lost", wasSent: wasSent))
        queue.add(.reply(replica: replica, step: step, request: number, reply), at: time.now + RequestOutcome.patience)
    }

    func arrive(
        _ replica: Int, _ step: Int, _ number: Int, _ request: Session.Request, _ outcome: RequestOutcome, isCopy: Bool
    ) async throws {
        if isCut(replica) || relayIsDown {
            if !isCopy { lose(replica, step, number, wasSent: true) }
            return
        }
        let reply: Session.Reply
        if let other = outcome.inPlaceOfRelay(request) { reply = other } else { reply = await ask(request) }
        if await relayHasDied() {
            if !isCopy { lose(replica, step, number, wasSent: true) }
            return
        }
        trace.note("+\(time.now) relay \(isCopy ? "again " : "")r\(replica) \(request.text): \(reply.text)")
        if case .uploaded = reply { try checkSnapshot(request, of: replicas[replica]) }
        try await absorbLog()
        // No replica waits for the answer to a repeated request.
        if isCopy { return }
        guard let arriving = outcome.onTheWayBack(reply) else { return lose(replica, step, number, wasSent: true) }
        queue.add(.reply(replica: replica, step: step, request: number, arriving), at: time.now + outcome.back)
    }

    private func ask(_ request: Session.Request) async -> Session.Reply {
        do throws(TransportError) {
            switch request {
            case .push(let batch, let seen):
                var answer = try await relay.push(batch, seen: seen)
                if let limit = plan.sizes?.pageBytes { answer.page?.cut(to: limit) }
                return .answer(answer)
            case .pull(let position, let seen, let asked):
                let limit = min(asked, plan.sizes?.pageBytes ?? asked)
                return .page(try await relay.pull(after: position, seen: seen, byteLimit: limit, wait: nil))
            case .describe: return .description(try await relay.describe())
            case .downloadSnapshot(let path, nil): return .snapshot(try await relay.downloadSnapshot(to: path) { _ in })
            case .downloadSnapshot(let path, let position?):
                return .snapshot(try await relay.downloadSnapshot(atOrBefore: position, to: path) { _ in })
            case .uploadSnapshot(let path, let seen, let digest):
                try await relay.uploadSnapshot(at: path, seen: seen, digest: digest) { _ in }
                return .uploaded(seen.position)
            }
        } catch {
            return .failed(error)
        }
    }

    // MARK: Answers

    func deliver(_ reply: Session.Reply, to number: Int, step: Int, request: Int) async throws {
        guard let exchange = replicas[number].exchange, exchange.step == step, exchange.requests == request, exchange.isWaiting else {
            return
        }
        var reply = reply
        if isCut(number), reply.isAnswer { reply = .failed(.unreachable("cut off", wasSent: true)) }
        if case .answer(let answer) = reply, exchange.isLastPart {
            for position in answer.acceptedPositions { replicas[number].accepted.formUnion(oracle.entry(at: position).span) }
        }
        if case .snapshot(let position) = reply { replicas[number].downloaded = position.rawValue }
        if reply.isOfLog, replicas[number].lostLog != nil { replicas[number].exchange?.hasOtherAnswer = true }
        replicas[number].exchange?.isWaiting = false
        exchange.session.reply(reply)
        try await proceed(number, after: .reply)
    }
}

extension Step.Direction {
    var product: SyncDirection {
        switch self {
        case .both: .both
        case .pushOnly: .pushOnly
        case .pullOnly: .pullOnly
        }
    }
}

extension PushAnswer {
    /// The positions of the pushed transactions in the log; empty if the answer is not definite.
    fileprivate var acceptedPositions: [Int64] {
        switch outcome {
        case .accepted, .stale: positions.map(\.rawValue)
        case .identityConflict, .gap, .logRolledBack, .wait, .partsMissing: []
        }
    }
}

extension Page {
    /// Cuts the page to what a relay with this limit of bytes would have sent.
    fileprivate mutating func cut(to byteLimit: Int) {
        var bytes = 0
        let end = frames.firstIndex { frame in
            bytes += frame.batch.count
            return bytes > byteLimit
        }
        frames = Array(frames.prefix(max(1, end ?? frames.count)))
        isLast = lastPosition == head
    }
}

extension Duration {
    var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1_000 + attoseconds / 1_000_000_000_000_000
    }
}

extension Session.Request {
    var text: String {
        switch self {
        case .push(let batch, _):
            guard let header = try? BatchHeader.parse(batch) else { return "pushes something unreadable" }
            let part = header.part.isWhole ? "" : ", part \(header.part.number + 1) of \(header.part.count),"
            return "pushes \(header.firstCounter)…\(header.lastCounter)\(part) from \(header.certificates[0].base)"
        case .describe: return "asks about the space"
        case .downloadSnapshot(_, nil): return "asks for the snapshot"
        case .downloadSnapshot(_, let position?): return "asks for the snapshot at \(position) or before"
        case .uploadSnapshot(_, let seen, _): return "brings a snapshot of \(seen.position)"
        case .pull(let position, _, _): return "pulls after \(position)"
        }
    }

    /// Whether the answer has the positions of all pushed transactions.
    fileprivate var isLastPart: Bool {
        guard case .push(let batch, _) = self, let header = try? BatchHeader.parse(batch) else { return false }
        return header.part.isLast
    }
}

extension Session.Reply {
    /// Whether the relay compared its log with the part that the replica has seen.
    var isOfLog: Bool {
        switch self {
        case .answer, .page, .uploaded: true
        case .description, .snapshot, .failed, .goOn, .dead: false
        }
    }

    var isAnswer: Bool {
        switch self {
        case .answer, .page, .description, .snapshot, .uploaded: true
        case .failed, .goOn, .dead: false
        }
    }

    var text: String {
        switch self {
        case .answer(let answer): "\(answer.outcome), positions \(answer.positions)"
        case .description(let description): "a space up to \(description.head)"
        case .snapshot(let position): "a snapshot at \(position)"
        case .uploaded(let position): "has the snapshot of \(position)"
        case .page(let page): "a page up to \(page.lastPosition)"
        case .failed(let error): "\(error)"
        case .goOn: "goes on"
        case .dead: "dead"
        }
    }
}
