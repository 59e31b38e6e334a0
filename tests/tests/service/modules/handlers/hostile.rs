//! Handlers that use all resources that they get.

use latchmail_tests::{Actor, Setup, wait_until};

use super::{READ, actor, deliver, deliver_in_order, log_of, section, switch_module};

/// What the handlers do: use CPU time, memory and host calls beyond the limits, trap, and ask for a
/// repetition of the call without an end.
const INSTRUCTIONS: [&str; 5] = ["spin", "memory", "calls", "trap", "retry 1"];

#[tokio::test(flavor = "multi_thread")]
async fn hostile_calls_stop_neither_other_modules_nor_the_same_module_for_other_accounts() {
    let modules = ["actor", "hostile"];
    let sections = modules.map(|name| section(name, READ)).concat();
    let setup = Setup::default().with(&sections).with("handlers.cpu = 0.2");
    let mut service = setup.with_mail().without_notices().start().await;
    let hostile = Actor {
        name: "hostile",
        path: "/hostile/",
        ..actor("none")
    };
    let components = [actor("none"), hostile].map(|one| one.component());
    service.install(&components).await;
    // A process of its own has a clock that moves, so that failed calls are repeated.
    let _process = service.restart_in_process().await;
    let ada = service.person("ada").await;
    for name in modules {
        switch_module(&ada, name, true).await;
    }
    let mut owners = Vec::new();
    for (number, instruction) in INSTRUCTIONS.into_iter().enumerate() {
        let owner = service.person(&format!("owner{number}")).await;
        switch_module(&owner, "hostile", true).await;
        deliver(&owner, instruction).await;
        wait_until(&format!("a handler does {instruction:?}"), async || {
            log_of(&owner, "hostile").await.first().map(String::as_str) == Some(instruction)
        })
        .await;
        owners.push(owner);
    }
    let subjects = ["one", "two", "three"];
    for subject in subjects {
        deliver_in_order(&ada, subject).await;
    }
    for name in modules {
        wait_until(&format!("{name} handles all events"), async || {
            log_of(&ada, name).await == subjects
        })
        .await;
    }
    for owner in &owners {
        wait_until("the hostile calls are repeated", async || {
            log_of(owner, "hostile").await.len() >= 3
        })
        .await;
    }
}
