import Testing

@testable import Simulation

@Suite struct DiceTests {
    @Test("Dice of one seed fall alike for ever")
    func known() {
        var dice = Dice(seed: 1)
        #expect((0..<3).map { _ in dice.next() } == [10_451_216_379_200_822_465, 13_757_245_211_066_428_519, 17_911_839_290_282_890_590])
    }
}
