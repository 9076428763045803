/// Moments as text: ISO 8601 dates, read strictly and written without a calendar's help.
package enum ISODate {
    private static let secondsPerDay: Int64 = 86_400

    /// Milliseconds since 1970 of `2026-03-01`, `2026-03-01T08:15`, `2026-03-01T08:15:30.250+02:00` and the like; nil for
    /// anything else. Without an offset the time is UTC.
    package static func milliseconds(_ text: String) -> Int64? {
        var reader = Reader(bytes: Array(text.utf8))
        guard let year = reader.number(digits: 4), reader.skip("-"), let month = reader.number(digits: 2), reader.skip("-"),
            let day = reader.number(digits: 2), (1...12).contains(month), (1...daysIn(month, of: year)).contains(day)
        else { return nil }
        let date = days(year, month, day) * secondsPerDay * 1_000
        if reader.isAtEnd { return date }
        guard reader.skip("T") || reader.skip("t") || reader.skip(" "), let time = reader.timeOfDay(), let offset = reader.offset(),
            reader.isAtEnd
        else { return nil }
        return date + time - offset
    }

    /// A time as text, in UTC with milliseconds, as in `2024-02-29T23:59:59.001Z`.
    ///
    /// - Parameter milliseconds: since 1970-01-01 UTC.
    package static func text(milliseconds: Int64) -> String {
        let (days, inDay) = milliseconds.quotientAndRemainderFlooring(by: secondsPerDay * 1_000)
        let date = civil(fromDays: days)
        let (seconds, fraction) = inDay.quotientAndRemainder(dividingBy: 1_000)
        let (minutes, second) = seconds.quotientAndRemainder(dividingBy: 60)
        let (hour, minute) = minutes.quotientAndRemainder(dividingBy: 60)
        return "\(padded(date.year, 4))-\(padded(date.month, 2))-\(padded(date.day, 2))"
            + "T\(padded(hour, 2)):\(padded(minute, 2)):\(padded(second, 2)).\(padded(fraction, 3))Z"
    }

    private static func padded(_ number: Int64, _ width: Int) -> String {
        let digits = String(abs(number))
        return (number < 0 ? "-" : "") + String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    /// The proleptic Gregorian date of a day counted from 1970-01-01.
    ///
    /// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", 2021.
    private static func civil(fromDays days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let (era, dayOfEra) = (days + 719_468).quotientAndRemainderFlooring(by: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * marchMonth + 2) / 5 + 1)
    }

    /// Days from 1970-01-01, by the proleptic Gregorian calendar.
    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        // Years that begin in March, so that the leap day is the last one.
        let shifted = month > 2 ? year : year - 1
        let monthFromMarch = (month + 9) % 12
        let leapDays = shifted / 4 - shifted / 100 + shifted / 400
        return shifted * 365 + leapDays + (monthFromMarch * 153 + 2) / 5 + day - 1 - 719_468
    }

    private static func daysIn(_ month: Int64, of year: Int64) -> Int64 {
        switch month {
        case 2: year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400)) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    private struct Reader {
        let bytes: [UInt8]
        var position = 0

        var isAtEnd: Bool { position == bytes.count }

        mutating func skip(_ character: Unicode.Scalar) -> Bool {
            guard position < bytes.count, bytes[position] == UInt8(ascii: character) else { return false }
            position += 1
            return true
        }

        mutating func digit() -> Int64? {
            guard position < bytes.count, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[position]) else { return nil }
            position += 1
            return Int64(bytes[position - 1] - UInt8(ascii: "0"))
        }

        mutating func number(digits: Int) -> Int64? {
            var number: Int64 = 0
            for _ in 0..<digits {
                guard let digit = digit() else { return nil }
                number = number * 10 + digit
            }
            return number
        }

        /// Milliseconds since midnight.
        mutating func timeOfDay() -> Int64? {
            guard let hour = number(digits: 2), skip(":"), let minute = number(digits: 2), hour < 24, minute < 60 else { return nil }
            let minutes = hour * 60 + minute
            guard skip(":") else { return minutes * 60_000 }
            guard let second = number(digits: 2), second <= 60 else { return nil }
            guard skip(".") || skip(",") else { return (minutes * 60 + second) * 1_000 }
            guard var fraction = digit() else { return nil }
            var digits = 1
            while let digit = digit() {
                digits += 1
                if digits <= 3 { fraction = fraction * 10 + digit }
            }
            if digits == 1 { fraction *= 100 } else if digits == 2 { fraction *= 10 }
            return (minutes * 60 + second) * 1_000 + fraction
        }

        /// Milliseconds that the clock is ahead of UTC.
        mutating func offset() -> Int64? {
            if isAtEnd || skip("Z") || skip("z") { return 0 }
            let sign: Int64
            if skip("+") { sign = 1 } else if skip("-") { sign = -1 } else { return nil }
            guard let hour = number(digits: 2), hour < 24 else { return nil }
            _ = skip(":")
            guard !isAtEnd else { return sign * hour * 3_600_000 }
            guard let minute = number(digits: 2), minute < 60 else { return nil }
            return sign * (hour * 60 + minute) * 60_000
        }
    }
}

extension Int64 {
    /// Division with a remainder that is never negative, for a positive divisor.
    fileprivate func quotientAndRemainderFlooring(by divisor: Int64) -> (Int64, Int64) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}
