//! Responses never contain data of another account, even with many concurrent requests.

use std::sync::Arc;

use latchmail_tests::{Person, Response, Service};
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_requests_of_twenty_accounts_never_mix() {
    let service = Service::with_mail().await;
    let mut people: Vec<Person<'_>> = Vec::new();
    for number in 0..20 {
        let person = service.person(&format!("person{number}")).await;
        let secret = format!(
            "From: a@outside.test\nTo: {}\nSubject: secret-of-{number}-end\n\nbody-of-{number}-end\n",
            person.address
        );
        person.receive(&secret).await;
        people.push(person);
    }
    let mut uids = Vec::new();
    for person in &people {
        uids.push(person.messages("INBOX").await[0]["uid"].clone());
    }

    let barrier = Arc::new(tokio::sync::Barrier::new(200));
    let mut tasks = JoinSet::new();
    for round in 0..10 {
        for (number, person) in people.iter().enumerate() {
            let line = if round % 2 == 0 {
                "GET /api/v1/mail/folders/INBOX/messages".to_owned()
            } else {
                format!("GET /api/v1/mail/messages/{}", uids[number])
            };
            let request = service.request(&line).bearer_auth(&person.access);
            let barrier = Arc::clone(&barrier);
            tasks.spawn(async move {
                barrier.wait().await;
                (number, Response::of(request).await)
            });
        }
    }
    let mut answered = 0;
    while let Some(done) = tasks.join_next().await {
        let (number, response) = done.unwrap();
        let text = String::from_utf8(response.body.clone()).unwrap();
        response.succeeds(200);
        assert!(
            text.contains(&format!("-of-{number}-end")),
            "{number}: {text}"
        );
        for other in (0..20).filter(|other| *other != number) {
            assert!(
                !text.contains(&format!("-of-{other}-end")),
                "{number} sees {other}"
            );
            assert!(
                !text.contains(&format!("person{other}@")),
                "{number} sees {other}"
            );
        }
        answered += 1;
    }
    assert_eq!(answered, 200);
}
