/// A geometry as a GeoPackage stores it: a header, which may hold the envelope, and the geometry as well-known binary.
///
/// Source: OGC 12-128r18, clause 2.1.3 (GeoPackageBinary), and OGC 06-103r4, clause 8 (well-known binary).
package struct GeoPackageGeometry {
    package struct Bounds: Equatable {
        package private(set) var x: ClosedRange<Double>
        package private(set) var y: ClosedRange<Double>

        fileprivate init?(minX: Double, maxX: Double, minY: Double, maxY: Double) {
            guard minX <= maxX, minY <= maxY else { return nil }
            (x, y) = (minX...maxX, minY...maxY)
        }

        fileprivate mutating func include(_ other: Bounds) {
            x = min(x.lowerBound, other.x.lowerBound)...max(x.upperBound, other.x.upperBound)
            y = min(y.lowerBound, other.y.lowerBound)...max(y.upperBound, other.y.upperBound)
        }
    }

    package let isEmpty: Bool
    /// nil if the geometry is empty, or if its bytes cannot be read. Bounds of arcs are those of their circles.
    package let bounds: Bounds?

    /// nil if the bytes have no GeoPackage header.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= 8, bytes[0] == 0x47, bytes[1] == 0x50, bytes[2] == 0 else { return nil }
        let flags = bytes[3]
        let envelope = Int(flags >> 1 & 7)
        guard envelope <= 4 else { return nil }
        let length = [0, 32, 48, 48, 64][envelope]
        guard bytes.count >= 8 + length else { return nil }
        isEmpty = flags & 0x10 != 0
        var reader = Reader(bytes: bytes, position: 8, isLittleEndian: flags & 1 == 1)
        if isEmpty {
            bounds = nil
        } else if length > 0, let minX = reader.double(), let maxX = reader.double(), let minY = reader.double(), let maxY = reader.double()
        {
            bounds = Bounds(minX: minX, maxX: maxX, minY: minY, maxY: maxY)
        } else {
            bounds = reader.bounds()
        }
    }
}

extension GeoPackageGeometry {
    fileprivate struct Reader {
        private typealias Point = (x: Double, y: Double)

        let bytes: UnsafeRawBufferPointer
        var position: Int
        var isLittleEndian: Bool
        private var found: Bounds?

        init(bytes: UnsafeRawBufferPointer, position: Int, isLittleEndian: Bool) {
            (self.bytes, self.position, self.isLittleEndian) = (bytes, position, isLittleEndian)
        }

        /// The bounds of the geometry and of all geometries in it. They follow each other, so no recursion is needed.
        mutating func bounds() -> Bounds? {
            var waiting = 1
            while waiting > 0 {
                waiting -= 1
                guard let order = byte(), order <= 1 else { return nil }
                isLittleEndian = order == 1
                guard let code = number(), code <= 3_999 else { return nil }
                let dimensions = [2, 3, 3, 4][code / 1_000]
                switch code % 1_000 {
                case 1: guard points(1, dimensions) else { return nil }
                case 2: guard let count = number(), points(count, dimensions) else { return nil }
                case 8: guard let count = number(), arcs(count, dimensions) else { return nil }
                case 3, 17:
                    guard let rings = number() else { return nil }
                    for _ in 0..<rings { guard let count = number(), points(count, dimensions) else { return nil } }
                case 4...7, 9...12, 15, 16:
                    guard let count = number() else { return nil }
                    waiting += count
                default: return nil
                }
            }
            return found
        }

        private mutating func points(_ count: Int, _ dimensions: Int) -> Bool {
            for _ in 0..<count {
                guard let point = point(dimensions) else { return false }
                include(point)
            }
            return true
        }

        /// Each arc has three points, and begins where the one before ends.
        private mutating func arcs(_ count: Int, _ dimensions: Int) -> Bool {
            var start: Point?
            var middle: Point?
            for _ in 0..<count {
                guard let point = point(dimensions) else { return false }
                include(point)
                guard let first = start else {
                    start = point
                    continue
                }
                guard let between = middle else {
                    middle = point
                    continue
                }
                includeCircle(first, between, point)
                (start, middle) = (point, nil)
            }
            return true
        }

        private mutating func includeCircle(_ a: Point, _ b: Point, _ c: Point) {
            var center: Point
            if a == c {
                // A whole circle: the middle point is opposite.
                center = ((a.x + b.x) / 2, (a.y + b.y) / 2)
            } else {
                let (bx, by, cx, cy) = (b.x - a.x, b.y - a.y, c.x - a.x, c.y - a.y)
                let area = 2 * (bx * cy - by * cx)
                guard area != 0 else { return }
                let (bb, cc) = (bx * bx + by * by, cx * cx + cy * cy)
                center = (a.x + (cy * bb - by * cc) / area, a.y + (bx * cc - cx * bb) / area)
            }
            let radius = ((a.x - center.x) * (a.x - center.x) + (a.y - center.y) * (a.y - center.y)).squareRoot()
            include(
                Bounds(minX: center.x - radius, maxX: center.x + radius, minY: center.y - radius, maxY: center.y + radius))
        }

        private mutating func include(_ point: Point) {
            // An empty point has coordinates that are not numbers.
            include(Bounds(minX: point.x, maxX: point.x, minY: point.y, maxY: point.y))
        }

        private mutating func include(_ bounds: Bounds?) {
            guard let bounds else { return }
            if found?.include(bounds) == nil { found = bounds }
        }

        private mutating func point(_ dimensions: Int) -> Point? {
            guard let x = double(), let y = double(), bytes.count - position >= 8 * (dimensions - 2) else { return nil }
            position += 8 * (dimensions - 2)
            return (x, y)
        }

        private mutating func byte() -> UInt8? {
            guard position < bytes.count else { return nil }
            defer { position += 1 }
            return bytes[position]
        }

        private mutating func number() -> Int? {
            guard bytes.count - position >= 4 else { return nil }
            defer { position += 4 }
            let value = bytes.loadUnaligned(fromByteOffset: position, as: UInt32.self)
            return Int(isLittleEndian ? UInt32(littleEndian: value) : UInt32(bigEndian: value))
        }

        mutating func double() -> Double? {
            guard bytes.count - position >= 8 else { return nil }
            defer { position += 8 }
            let value = bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self)
            return Double(bitPattern: isLittleEndian ? UInt64(littleEndian: value) : UInt64(bigEndian: value))
        }
    }
}
