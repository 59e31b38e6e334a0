//! Hosts are killed while a module files arriving messages.

use latchmail_tests::process::kill;
use latchmail_tests::{Random, SeveralHosts, wait_until};
use tokio::time::sleep;

use crate::modules::handlers::kills::{FILE_ALL, check_filed, deliver_some, owners};
use crate::modules::handlers::{READ_AND_WRITE, actor, section, switch};

const MESSAGES: usize = 10_000;
const KILLS: usize = 20;
/// The longest time until a kill, in milliseconds.
const PAUSE: usize = 5_000;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes long; ./just test-all runs it"]
async fn each_arriving_message_is_filed_once_if_hosts_are_killed() {
    let settings = section("actor", READ_AND_WRITE) + FILE_ALL;
    let mut all = SeveralHosts::start_with(&settings).await;
    let component = all.service.state.join("actor.wasm");
    std::fs::write(&component, actor("none").component()).unwrap();
    let install = format!("module install --yes {}", component.display());
    let installed = all.hosts[0].service.operator(&install, "").await;
    installed.succeeds();
    let owners = owners(&all.service).await;
    wait_until("both hosts serve the module", async || {
        for host in &all.hosts {
            let person = host.person(&owners[0]);
            if person.send("GET /actor/calls").await.status != 200 {
                return false;
            }
        }
        true
    })
    .await;
    switch(&owners[0], true).await;
    let mut random = Random::new(std::process::id().into());
    for number in 0..KILLS {
        let numbers = MESSAGES * number / KILLS..MESSAGES * (number + 1) / KILLS;
        let process = &mut all.hosts[number % 2].process;
        let killing = async {
            sleep(random.millis(PAUSE)).await;
            kill(process.pid());
            process.start().await;
        };
        tokio::join!(deliver_some(&owners, numbers), killing);
    }
    all.wait_until_both_serve().await;
    check_filed(&owners, MESSAGES).await;
}
