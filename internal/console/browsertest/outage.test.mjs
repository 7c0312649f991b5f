// An outage of payments, followed on the console from the first failure to the
// end, with pictures.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browse, get, live, pause, picture, start, stopAll, until, view, watch } from "./support.mjs";
import { Traffic } from "./traffic.mjs";

let browser, decider, traffic;
before(async () => {
  [browser, decider] = await Promise.all([browse(), start()]);
  traffic = new Traffic(decider.url).start();
});
after(async () => {
  traffic.stop();
  await browser.close();
  await stopAll();
});

const seconds = 1000;

test("an outage is seen, held back, and over", async () => {
  const page = await watch(browser, decider.url, { colorScheme: "dark" });
  await live(page);
  const payments = traffic.dependency("payments");
  const row = page.locator("table.dependencies tbody tr", { has: page.getByRole("link", { name: "payments", exact: true }) });
  const meter = async () => Number(await row.locator("meter").getAttribute("value"));
  const giveUps = async () => Number((await row.locator("td").nth(4).innerText()).replaceAll(",", ""));
  await pause(8 * seconds);
  assert.equal(await row.getAttribute("class"), "good");
  await picture(page, "outage-1-before");

  payments.failing = 1;
  const calls = traffic.calls.get("payments"), begun = Date.now();
  const seen = await until("the console says that payments is in trouble", async () => await row.getAttribute("class") === "bad");
  await pause(Math.max(12 * seconds - seen, 8 * seconds));
  const made = (traffic.calls.get("payments") - calls) / ((Date.now() - begun) / seconds); // by a busy machine fewer than it should
  const load = made / payments.rate;
  assert.match(await page.locator(".troubles").innerText(), /payments/);
  assert.ok(await meter() < 5, `${await meter()} tokens`);
  assert.ok(await giveUps() > made / 2, `${await giveUps()} give-ups a second, of ${made} calls`);
  assert.ok(load < 1.1, `the dependency was called ${load.toFixed(3)} times as often as without retries`);
  await picture(page, "outage-2-fleet");
  await view(page, "/dependency/payments");
  await page.locator("pre.yaml").waitFor();
  await pause(2 * seconds);
  await picture(page, "outage-3-dependency");
  await view(page, "/decisions?dependency=payments&decision=give_up");
  await page.locator("table.decisions tbody tr").first().waitFor();
  await picture(page, "outage-4-decisions", false);

  payments.failing = 0.004;
  await view(page, "/");
  await until("payments is well again", async () => ["good", "note"].includes(await row.getAttribute("class")));
  await until("its bucket fills again", async () => await meter() > 10);
  await pause(3 * seconds);
  await picture(page, "outage-5-after");
  const { counts } = await get(decider.url, "v1/dependencies/payments");
  assert.ok(counts.budget_exhausted > 0 && counts.backoff > 0, JSON.stringify(counts));
  await page.done();
  console.log(`seen after ${seen} ms; load on payments in the outage: ${load.toFixed(3)}`);
});
