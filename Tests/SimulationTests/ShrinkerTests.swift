import Testing

@testable import Simulation

@Suite("Shrinking a failing plan")
struct ShrinkerTests {
    private func plan(steps: Int) -> Plan {
        Plan(
            seed: 1, schema: SmallSchema.schema, rows: ["one", "two"], replicas: [ReplicaPlan(isInFile: true, clockOffset: 5)],
            network: NetworkPlan(percentages: [LostRequest.name: 10]),
            steps: (0..<steps).map {
                Step(number: $0, at: Int64($0), replica: 0, action: .write(statements: ["a", "b", "c"], isTolerant: true))
            })
    }

    @Test("What the failure does not need is left out")
    func shrinks() async {
        var shrinker = Shrinker(plan(steps: 40), law: "law 5", tries: 1_000) { plan in
            let needed = plan.steps.filter { [7, 31].contains($0.number) && $0.action.statements?.contains("b") == true }
            return needed.count == 2 && plan.rows.contains("two") ? Violation("law 5", "") : nil
        }
        let small = await shrinker.run()
        #expect(small.steps.map(\.number) == [7, 31])
        #expect(small.steps.map(\.action.statements) == [["b"], ["b"]])
        #expect(small.rows == ["two"])
        #expect(small.network.percentages.isEmpty)
        #expect(small.replicas.map(\.isInFile) == [false])
        #expect(small.schema.tables.allSatisfy { $0.uniques.isEmpty && $0.checks.isEmpty && $0.references.isEmpty })
    }

    @Test("A plan that fails otherwise is not what is looked for")
    func otherLaw() async {
        var shrinker = Shrinker(plan(steps: 4), law: "law 5", tries: 1_000) { plan in
            Violation(plan.steps.count == 4 ? "law 5" : "law 3", "")
        }
        #expect(await shrinker.run().steps.count == 4)
    }

    @Test("It stops after so many tries")
    func tries() async {
        var count = 0
        var shrinker = Shrinker(plan(steps: 40), law: "law 5", tries: 5) { _ in
            count += 1
            return nil
        }
        _ = await shrinker.run()
        #expect(count == 5)
    }
}
