import Foundation
import RelayLog

/// The user of the system who runs this command, for the audit log.
enum SystemUser {
    /// The user's name, or its number if the system has no name for it. With sudo, the user who called it: `ann as root`.
    static var name: String {
        name(uid: getuid(), own: systemName(getuid()), environment: ProcessInfo.processInfo.environment)
    }

    /// - Parameter own: the system's name of the user.
    static func name(uid: uid_t, own: String?, environment: [String: String]) -> String {
        let name = own ?? "uid \(uid)"
        // Other users can set this variable to anything.
        guard uid == 0, let caller = environment["SUDO_USER"], !caller.isEmpty, caller != name else { return name }
        return "\(caller) as \(name)"
    }

    private static func systemName(_ uid: uid_t) -> String? {
        guard let entry = getpwuid(uid), let name = entry.pointee.pw_name else { return nil }
        return String(cString: name)
    }
}

extension Operator {
    /// The user who runs this command.
    static var thisUser: Operator { .commandLine(user: SystemUser.name) }
}
