use super::*;
use crate::credentials::AppPasswordKind;
use crate::mailserver::MailServerView;
use crate::testing::{Fresh, NOW, both, new_app_password};

fn sent(message_id: &str, ancestors: &[&str], people: &[&str]) -> SentRecord {
    let references: Vec<String> = ancestors.iter().map(|one| (*one).into()).collect();
    let parent = ancestors.last().copied();
    let people = people.iter().copied();
    SentRecord::new(message_id, parent, &references, people).unwrap()
}

async fn approved(fresh: &Fresh, ancestors: &[&str]) -> Vec<String> {
    let ancestors: Vec<String> = ancestors.iter().map(|one| (*one).into()).collect();
    let found = fresh.directory.policies.approved("ada", &ancestors).await;
    let mut found: Vec<String> = found.unwrap().into_iter().collect();
    found.sort();
    found
}

async fn the_people_of_a_thread_are_those_to_whom_a_person_wrote(fresh: Fresh) {
    let policies = &fresh.directory.policies;
    fresh.directory.with("ada", "ada@example.org", &["s"]).await;
    for (record, by_person) in [
        (sent("<a1>", &[], &["Bob@X.test", "dave@x.test"]), true),
        (sent("<a2>", &["<a1>", "<b1>"], &["bob@x.test"]), true),
        (sent("<c1>", &[], &["carol@x.test"]), true),
        (sent("<g1>", &["<a1>"], &["eve@x.test"]), false),
        (sent("<a3>", &["<new>"], &["fay@x.test"]), true),
    ] {
        policies
            .record_sent("ada", by_person, &record, NOW)
            .await
            .unwrap();
    }
    let bob_and_dave = ["bob@x.test", "dave@x.test"];
    assert_eq!(
        approved(&fresh, &["<a1>", "<b1>", "<a2>", "<b2>"]).await,
        bob_and_dave
    );
    // The owner's answer to a message approves its recipients.
    assert_eq!(approved(&fresh, &["<new>"]).await, ["fay@x.test"]);
    // A message that names two threads in References is in the last one only.
    assert_eq!(
        approved(&fresh, &["<a1>", "<c1>", "<evil>"]).await,
        ["carol@x.test"]
    );
    // Mail of a grant approves no one, also if the milter has seen the message.
    let view = MailServerView::new(&fresh.config).unwrap();
    let mallory = sent("<g1>", &["<c1>"], &["mallory@x.test"]);
    view.add_sent_mail("ada@example.org", &mallory, NOW)
        .await
        .unwrap();
    assert_eq!(approved(&fresh, &["<g1>"]).await, Vec::<String>::new());
    assert_eq!(approved(&fresh, &["<c1>"]).await, ["carol@x.test"]);
    assert_eq!(approved(&fresh, &[]).await, Vec::<String>::new());
}

async fn what_a_mail_client_sent_counts_before_and_after_the_sweep(fresh: Fresh) {
    fresh.directory.with("ada", "ada@example.org", &["s"]).await;
    let view = MailServerView::new(&fresh.config).unwrap();
    let record = sent("<m1>", &[], &["bob@x.test"]);
    let login = "ada@example.org/phone";
    view.add_sent_mail(login, &record, NOW).await.unwrap();
    let other = sent("<m1>", &[], &["mallory@x.test"]);
    view.add_sent_mail(login, &other, NOW).await.unwrap();
    view.add_sent_mail("bob@example.org", &other, NOW)
        .await
        .unwrap();
    assert_eq!(approved(&fresh, &["<m1>"]).await, ["bob@x.test"]);
    fresh.directory.policies.sweep(NOW).await.unwrap();
    assert_eq!(approved(&fresh, &["<m1>"]).await, ["bob@x.test"]);
    assert_eq!(fresh.number("SELECT COUNT(*) FROM sent_records").await, 1);
}

async fn concurrent_sends_do_not_exceed_a_cap(fresh: Fresh) {
    let policies = &fresh.directory.policies;
    fresh.directory.with("ada", "ada@example.org", &["s"]).await;
    let password = new_app_password("p", AppPasswordKind::OAuthGrant);
    fresh.directory.hold("ada", &password, NOW).await;
    let policy = Policy {
        send_per_day: Some(7),
        recipients_per_day: Some(11),
        ..Policy::default()
    };
    let concurrent = (0..30).map(|_| policies.charge("p", &policy, 2, NOW));
    let outcomes = futures_util::future::join_all(concurrent).await;
    let charged: Vec<Charge> = outcomes
        .into_iter()
        .filter_map(|one| one.unwrap())
        .collect();
    assert_eq!(charged.len(), 5);
    policies.refund(&charged[0]).await.unwrap();
    let again = policies.charge("p", &policy, 3, NOW).await.unwrap();
    assert!(again.is_some());
    assert_eq!(policies.charge("p", &policy, 1, NOW).await.unwrap(), None);
    let tomorrow = NOW.plus(std::time::Duration::from_hours(24));
    let tomorrow = policies.charge("p", &policy, 11, tomorrow).await.unwrap();
    assert!(tomorrow.is_some());
    // A scheduled message can leave after its grant has ended.
    let gone = policies.charge("gone", &policy, 1, NOW).await.unwrap();
    assert_eq!(gone, None);
}

async fn a_policy_is_read_with_the_standing_of_its_grant(fresh: Fresh) {
    let policies = &fresh.directory.policies;
    fresh.directory.with("ada", "ada@example.org", &["s"]).await;
    assert_eq!(policies.standing("p").await.unwrap(), None);
    let password = crate::credentials::NewAppPassword {
        policy: Some("not a policy".into()),
        ..new_app_password("p", AppPasswordKind::ApiToken)
    };
    fresh.directory.hold("ada", &password, NOW).await;
    let standing = policies.standing("p").await.unwrap().unwrap();
    assert_eq!(standing.policy, Some(Policy::closed()));
    assert!(!standing.suspended);
    let (grants, policy) = (&fresh.directory.grants, Policy::default());
    let unknown = grants.set_policy_as_operator("ada", "p", &policy, NOW);
    assert_eq!(
        unknown.await.unwrap(),
        crate::grants::Suspension::Unknown,
        "the id of a grant is not that of its app password"
    );
}

both!(
    the_people_of_a_thread_are_those_to_whom_a_person_wrote,
    what_a_mail_client_sent_counts_before_and_after_the_sweep,
    concurrent_sends_do_not_exceed_a_cap,
    a_policy_is_read_with_the_standing_of_its_grant,
);
