import AnnalsCore
import AnnalsWire

/// A page's entries after a position, by their clear parts only: what local certification needs before anything is opened.
struct Entries {
    struct Frame {
        var frame: LogFrame
        /// Which of the batch's transactions are entries after the position.
        var indices: Range<Int>
    }

    struct Entry {
        var position: Position
        var replica: ReplicaID
        var footprint: Footprint
    }

    private(set) var frames: [Frame] = []
    private(set) var list: [Entry] = []
    /// The relay's clock at the last entry, in milliseconds since 1970.
    private(set) var lastReceipt: Int64 = 0

    init(_ page: Page, after position: Position) throws {
        for frame in page.frames where frame.lastPosition > position {
            let header = try BatchHeader.parse(frame.batch)
            let first = frame.firstIndex + max(0, Int(position.rawValue - frame.firstPosition.rawValue) + 1)
            let end = frame.firstIndex + frame.acceptedCount
            guard first < end, end <= header.certificates.count else { continue }
            frames.append(Frame(frame: frame, indices: first..<end))
            for index in first..<end {
                guard let place = frame.position(of: index) else { continue }
                list.append(Entry(position: place, replica: header.replica, footprint: header.certificates[index].footprint))
            }
            lastReceipt = max(lastReceipt, frame.receivedAt)
        }
    }
}
