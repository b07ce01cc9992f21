// Penstock for iOS: finds the link that led to the installation of this app.
//
// NOT COMPILED OR RUN BY PENSTOCK'S TESTS, which have no Swift. It follows the same rules as the tested clients
// (sdk/js/src/core/first-open.ts, sdk/android-core) and reads the same answers. Check it with the cases in
// sdk/vectors/deferred-links.json. Copy this file into your app.

import Foundation
#if canImport(UIKit)
import UIKit
#endif

/// Finds click tokens and link URLs in texts. No other part of a text leaves the device.
public enum LinkEvidence {
    private static let maxLength = 2048

    /// The click token in the URL of one of our links; nil for any other text.
    public static func token(in text: String, linkHosts: Set<String>) -> String? {
        guard let parameters = linkParameters(text, linkHosts) else { return nil }
        let values = parameters.split(separator: "&").filter { $0.hasPrefix("ct=") }.map { $0.dropFirst(3) }
        return values.last(where: isToken).map(String.init)
    }

    /// Whether a text is the URL of one of our links.
    public static func isLink(_ text: String, linkHosts: Set<String>) -> Bool {
        linkParameters(text, linkHosts) != nil
    }

    /// The text between `?` and `#` of https://host/l/slug?...#...
    private static func linkParameters(_ text: String, _ linkHosts: Set<String>) -> Substring? {
        let url = text.trimmingCharacters(in: .whitespacesAndNewlines)
        guard text.utf16.count <= maxLength, url.hasPrefix("https://") else { return nil }
        let withoutFragment = url.dropFirst(8).prefix { $0 != "#" }
        let address = withoutFragment.prefix { $0 != "?" }
        let parts = address.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 3, linkHosts.contains(parts[0].lowercased()), parts[1] == "l",
              (1...64).contains(parts[2].count), parts[2].allSatisfy(isSlugCharacter)
        else { return nil }
        return withoutFragment.dropFirst(address.count + 1)
    }

    private static func isSlugCharacter(_ character: Character) -> Bool {
        character.isASCII && (character.isLowercase || character.isNumber || character == "-")
    }

    private static func isToken(_ text: Substring) -> Bool {
        (16...64).contains(text.count)
            && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_") }
    }
}

/// The server's answer.
public struct FirstOpen: Decodable, Sendable {
    public struct Link: Decodable, Sendable {
        public let id: String
        public let slug: String
    }

    public struct Utm: Decodable, Sendable {
        public let source: String?
        public let medium: String?
        public let campaign: String?
    }

    public let matched: Bool
    /// The place in the app to open; nil if no link led to the app.
    public let destinationPath: String?
    public let method: String?
    public let confidence: Double?
    public let link: Link?
    public let utm: Utm?
    public let clickedAt: String?
    /// The visitor ID to use from now on.
    public let visitorId: String
    /// Why there is no match; nil for a match.
    public let reason: String?
}

/// Reports the first open until the server answers, once per install.
public actor PenstockLinks {
    /// The next action: finish, stop because the app made a mistake, or retry.
    enum Action {
        case finish(FirstOpen)
        case stop
        case retry(afterSeconds: Double)
    }

    private struct Body: Codable {
        let websiteId: String
        let installId: String
        var platform = "ios"
        var firstOpen = true
        var visitorId: String?
        var osVersion: String?
        var appVersion: String?
        var url: String?
        var clickToken: String?
    }

    private static let bodyKey = "penstock.firstOpen.body"
    private static let doneKey = "penstock.firstOpen.done"

    private let host: URL
    private let website: String
    private let linkHosts: Set<String>
    private let defaults: UserDefaults
    private let session: URLSession
    private var running: Task<FirstOpen?, Never>?

    /// host: the URL of Penstock. website: the ID of the app, shown on its page in the dashboard.
    /// linkHosts: hosts of links, such as go.example.com, with a port if there is one.
    public init(
        host: URL, website: String, linkHosts: Set<String>,
        defaults: UserDefaults = .standard, session: URLSession = .shared
    ) {
        self.host = host
        self.website = website
        self.linkHosts = Set(linkHosts.map { $0.lowercased() })
        self.defaults = defaults
        self.session = session
    }

    /// The link that led to the install; nil if an earlier call has returned it or the server rejects the report.
    /// pasteboard: reads the pasteboard, such as `PenstockLinks.pasteboardLink`. url: the URL that opened the app.
    public func resolveFirstOpen(
        pasteboard: (@Sendable () async -> String?)? = nil, url: String? = nil,
        visitorId: String? = nil, osVersion: String? = nil, appVersion: String? = nil
    ) async -> FirstOpen? {
        if let running { return await running.value }
        let task = Task { () -> FirstOpen? in
            if defaults.bool(forKey: Self.doneKey) { return nil }
            if let saved = defaults.data(forKey: Self.bodyKey) { return await send(saved) }
            var body = Body(websiteId: website, installId: UUID().uuidString)
            body.visitorId = visitorId
            body.osVersion = osVersion
            body.appVersion = appVersion
            body.url = url.flatMap { LinkEvidence.isLink($0, linkHosts: linkHosts) ? $0 : nil }
            let text = await pasteboard?()
            body.clickToken = text.flatMap { LinkEvidence.token(in: $0, linkHosts: linkHosts) }
            guard let data = try? JSONEncoder().encode(body) else { return nil }
            defaults.set(data, forKey: Self.bodyKey)  // store it before sending, so that a retry sends the same body
            return await send(data)
        }
        running = task
        let answer = await task.value
        running = nil
        return answer
    }

    private func send(_ body: Data) async -> FirstOpen? {
        var request = URLRequest(url: host.appendingPathComponent("api/mobile/deferred-links/resolve"))
        request.httpMethod = "POST"
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        request.timeoutInterval = 20
        request.httpBody = body
        var failures = 0
        while !Task.isCancelled {
            switch await action(for: request) {
            case .finish(let answer):
                defaults.set(true, forKey: Self.doneKey)
                return answer
            case .stop:
                return nil
            case .retry(let seconds):
                let backoff = min(pow(2, Double(failures)), 60)
                failures += 1
                try? await Task.sleep(nanoseconds: UInt64(max(backoff, seconds) * 1_000_000_000))
            }
        }
        return nil
    }

    private func action(for request: URLRequest) async -> Action {
        guard let (data, response) = try? await session.data(for: request),
              let answer = response as? HTTPURLResponse
        else { return .retry(afterSeconds: 0) }
        let retryAfter = answer.value(forHTTPHeaderField: "Retry-After").flatMap(Double.init) ?? 0
        return Self.action(status: answer.statusCode, body: data, retryAfterSeconds: retryAfter)
    }

    static func action(status: Int, body: Data, retryAfterSeconds: Double) -> Action {
        if status == 200, let answer = try? JSONDecoder().decode(FirstOpen.self, from: body) {
            return .finish(answer)
        }
        if (400..<500).contains(status), status != 408, status != 429 { return .stop }
        return .retry(afterSeconds: min(max(retryAfterSeconds, 0), 86_400))
    }

    #if canImport(UIKit)
    /// The pasteboard's text, but only if it has a web URL. iOS detects this without asking the person.
    @MainActor
    public static func pasteboardLink() async -> String? {
        let patterns: Set<UIPasteboard.DetectionPattern> = [.probableWebURL]
        let detected = await withCheckedContinuation { continuation in
            UIPasteboard.general.detectPatterns(for: patterns) { result in
                continuation.resume(returning: (try? result.get()) ?? [])
            }
        }
        return detected.contains(.probableWebURL) ? UIPasteboard.general.string : nil
    }
    #endif
}
