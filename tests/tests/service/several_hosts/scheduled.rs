//! Two hosts send scheduled messages, and cancel them at their times.

use std::time::Duration;

use futures_util::future::join_all;
use latchmail_tests::SeveralHosts;
use tokio::time::sleep;

use crate::mail::send::later::{cancel_racing, check_outcomes, schedule_many};

const MESSAGES: usize = 24;
/// The time in which the messages are due, in seconds.
const SPREAD: u64 = 3;

/// Each message leaves once, or the first of two hosts cancels it.
pub(super) async fn leave_once_or_are_cancelled(all: &SeveralHosts) {
    let (ada, bob) = (
        all.service.person("eda").await,
        all.service.person("eli").await,
    );
    let ids = &schedule_many(&ada, &bob, MESSAGES, SPREAD.cast_signed()).await;
    let clients = &all.hosts.each_ref().map(|host| host.person(&ada));
    let cancels = (0..MESSAGES).step_by(2).map(async |number| {
        // The first message is due 2 seconds after its request.
        let number_of = u32::try_from(number).unwrap();
        let due = Duration::from_secs(SPREAD) * number_of / u32::try_from(MESSAGES).unwrap();
        sleep(Duration::from_millis(1900) + due).await;
        let won = join_all(
            clients
                .iter()
                .map(|client| cancel_racing(client, &ids[number])),
        );
        let won = won.await;
        // A repeated cancellation has the result of the first one.
        assert_eq!(won[0], won[1], "message {number}");
        (number, won[0])
    });
    let cancelled = join_all(cancels).await;
    check_outcomes(&all.service, &ada, &bob, &cancelled, MESSAGES).await;
}
