use std::collections::HashSet;

use super::*;

fn people(addresses: &[&str]) -> Vec<Option<String>> {
    addresses.iter().map(|one| person(one)).collect()
}

#[test]
fn the_json_has_all_fields_and_is_read_again() {
    for preset in Preset::ALL {
        let policy = preset.policy();
        assert_eq!(Policy::parse(&policy.to_json()).unwrap(), policy);
    }
    let all = r#"{"send":"list","sendTo":["Ada@Example.ORG","@bücher.example"],"sendPerDay":1,
        "recipientsPerDay":null,"folders":["inbox","Work"],"attachments":false,"hideCodes":true,
        "delete":"trash","onDenied":"hold","aliases":true,"until":"2027-01-01T01:00:00+01:00"}"#;
    let policy = Policy::parse(all).unwrap();
    assert_eq!(
        policy.send_to,
        ["ada@example.org", "@xn--bcher-kva.example"]
    );
    assert!(policy.opens("INBOX") && policy.opens("Work") && !policy.opens("Work/2026"));
    let json: serde_json::Value = serde_json::from_str(&policy.to_json()).unwrap();
    assert_eq!(json["until"], "2027-01-01T00:00:00.000Z");
    assert_eq!(json["recipientsPerDay"], serde_json::Value::Null);
    assert_eq!(json.as_object().unwrap().len(), 11);
    assert_eq!(Policy::parse("{}").unwrap(), Policy::default());
}

#[test]
fn an_invalid_policy_is_refused_with_the_name_of_the_field() {
    for (json, name) in [
        ("[]", "policy"),
        (r#"{"send":"all"}"#, "all"),
        (r#"{"sned":"any"}"#, "sned"),
        (r#"{"sendTo":["ada"]}"#, "sendTo"),
        (r#"{"sendTo":["@"]}"#, "sendTo"),
        (r#"{"sendPerDay":-1}"#, "policy"),
        (r#"{"sendPerDay":1000001}"#, "sendPerDay"),
        (r#"{"folders":[""]}"#, "folders"),
        (r#"{"until":"tomorrow"}"#, "until"),
    ] {
        let problem = Policy::parse(json).unwrap_err();
        assert_eq!(problem.code, codes::INVALID_POLICY);
        assert!(problem.text.starts_with("policy"), "{problem}");
        assert!(problem.text.contains(name), "{json}: {problem}");
    }
    let closed = Policy::stored("{");
    assert!(closed.is_over(Timestamp::from_millis(1)));
    assert!(Action::ALL.iter().all(|action| !closed.allows(*action)));
}

#[test]
fn addresses_are_compared_as_they_are_delivered() {
    let ada = person("ada@example.org");
    for same in [
        "ADA@Example.Org",
        "\"ada\"@example.org",
        " ada@example.org ",
        "ada@example.org.",
    ] {
        assert_eq!(person(same), ada, "{same}");
    }
    for other in [
        "ada+x@example.org",
        "a.da@example.org",
        "\u{430}da@example.org",
        "ada@mail.example.org",
        "\"a da\"@example.org",
    ] {
        assert_ne!(person(other), ada, "{other}");
    }
    assert_eq!(
        person("x@B\u{dc}CHER.example"),
        person("x@xn--bcher-kva.example")
    );
    assert_eq!(person("ada"), None);
    assert_eq!(person("@example.org"), None);
}

#[test]
fn only_people_of_the_thread_and_of_the_list_get_mail() {
    let approved: HashSet<String> = ["bob@outside.example".to_owned()].into();
    let policy = |send, on_denied| Policy {
        send,
        send_to: vec!["@friends.example".into(), "eve@outside.example".into()],
        on_denied,
        ..Policy::default()
    };
    let decide = |policy: &Policy, to: &[&str]| {
        policy.decide(Outgoing {
            people: &people(to),
            approved: &approved,
        })
    };
    let thread = policy(SendLimit::Thread, OnDenied::Hold);
    for allowed in [
        &["BOB@outside.example"][..],
        &["bob@outside.example", "eve@outside.example"],
        &["anyone@friends.example"],
    ] {
        assert_eq!(decide(&thread, allowed), Verdict::Allowed, "{allowed:?}");
    }
    for denied in [
        &["bob+x@outside.example"][..],
        &["bob@outside.example", "mallory@outside.example"],
        &["x@sub.friends.example"],
        &["x@notfriends.example"],
        &["bob"],
    ] {
        assert!(matches!(decide(&thread, denied), Verdict::Held(_)));
        let refusing = policy(SendLimit::Thread, OnDenied::Refuse);
        assert!(matches!(decide(&refusing, denied), Verdict::Refused(_)));
    }
    let list = policy(SendLimit::List, OnDenied::Hold);
    assert!(matches!(
        decide(&list, &["bob@outside.example"]),
        Verdict::Held(_)
    ));
    for send in [SendLimit::Never, SendLimit::Drafts] {
        let policy = policy(send, OnDenied::Hold);
        let verdict = decide(&policy, &["eve@outside.example"]);
        assert!(matches!(verdict, Verdict::Refused(_)), "{send}");
    }
    let any = policy(SendLimit::Any, OnDenied::Hold);
    assert_eq!(decide(&any, &["x@anywhere.example"]), Verdict::Allowed);
}
