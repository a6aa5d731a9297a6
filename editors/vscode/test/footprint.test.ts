import assert from "node:assert/strict";
import { test } from "node:test";
import { Footprints, shown } from "../src/footprint";

test("the peak as it is stands in the status bar, the sentence in the tooltip", () => {
  const sentence = "a.py: peak 23.5 GiB in the forward pass (fits b200-180gb); 6.0 GiB with safe fixes.";
  assert.deepEqual(shown(sentence), {
    text: "$(chip) 23.5 GiB",
    tooltip: `memlint: ${sentence}`,
    isOver: false,
  });
});

test("an interval is shown whole", () => {
  assert.equal(shown("a.py: peak 12.1-48.9 GiB in the step.")?.text, "$(chip) 12.1-48.9 GiB");
});

test("only the script as it is decides whether it is over", () => {
  assert.equal(shown("a.py: peak 9.0 GiB x (does not fit t4-16gb); 1.0 GiB y (fits t4-16gb).")?.isOver, true);
  assert.equal(shown("a.py: peak 9.0 GiB x (fits t4-16gb); 1.0 GiB y (does not fit t4-16gb).")?.isOver, false);
});

test("a script without a run has no peak, and a restart forgets them", () => {
  const footprints = new Footprints();
  footprints.take("file:///a.py", "");
  footprints.take("file:///b.py", "b.py: peak 1.0 GiB in the step.");
  assert.equal(footprints.of("file:///a.py"), undefined);
  assert.equal(footprints.of(undefined), undefined);
  assert.equal(footprints.of("file:///b.py")?.text, "$(chip) 1.0 GiB");
  footprints.forget();
  assert.equal(footprints.of("file:///b.py"), undefined);
});
