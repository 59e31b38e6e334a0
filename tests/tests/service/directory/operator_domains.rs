//! `latchmail domain …`, run as a user types it, and its effects on clients.

use latchmail_tests::{Nameserver, PASSWORD, Person, Response, Service, Setup, add_alias};
use serde_json::{Value, json};

const DOMAINS: &str = "/api/v1/domains";
const EXAMPLE: &str = "ada.example";

struct TestEnv {
    service: Service,
    dns: Nameserver,
}

impl TestEnv {
    async fn start() -> Self {
        let dns = Nameserver::start().await;
        let setup = Setup::default()
            .with_own_mail()
            .with(&format!("dns.server = '{}'", dns.address));
        Self {
            service: setup.start().await,
            dns,
        }
    }

    async fn run(&self, verb: &str) -> String {
        self.service.operator(verb, "").await.succeeds()
    }

    /// Returns the object that a command prints.
    async fn json(&self, verb: &str) -> Value {
        serde_json::from_str(&self.run(&format!("{verb} --json")).await).unwrap()
    }

    #[track_caller]
    fn fails_mentioning(&self, verb: &str, mention: &str) -> impl Future<Output = ()> {
        let at = std::panic::Location::caller();
        async move {
            let output = self.service.operator(verb, "").await;
            assert!(
                output.status == 1 && output.stdout.is_empty() && output.stderr.contains(mention),
                "{verb}, at {at}: {output:?}, expected a failure about {mention:?}"
            );
            output.fails_mentioning(mention);
        }
    }
}

async fn claim(person: &Person<'_>, domain: &str) -> Response {
    person.post(DOMAINS, &json!({ "domain": domain })).await
}

async fn status(person: &Person<'_>, domain: &str) -> Value {
    let response = person.send(&format!("GET {DOMAINS}/{domain}")).await;
    response.json["status"].clone()
}

#[tokio::test]
async fn domains_of_all_accounts_are_listed() {
    let env = TestEnv::start().await;
    let (ada, bob) = (
        env.service.person("ada").await,
        env.service.person("bob").await,
    );
    claim(&ada, EXAMPLE).await.succeeds(201);
    claim(&bob, EXAMPLE).await.succeeds(201);
    claim(&bob, "bob.example").await.succeeds(201);
    let verified = env.run("domain verify bob.example --unchecked").await;
    assert_eq!(
        verified,
        "bob.example is active for bob@first.test: mail for it is accepted from now on.\n"
    );
    env.run("domain add shared.example").await;

    let listed = env.run("domain list").await;
    let lines: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split("  ").filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(
        lines[0].iter().map(|cell| cell.trim()).collect::<Vec<_>>(),
        ["domain", "state", "account", "since"]
    );
    let rows: Vec<(&str, &str, &str)> = lines[1..]
        .iter()
        .map(|cells| (cells[0].trim(), cells[1].trim(), cells[2].trim()))
        .collect();
    assert_eq!(
        rows,
        [
            ("first.test", "platform, configured", "-"),
            ("second.test", "platform, configured", "-"),
            ("shared.example", "platform, added", "-"),
            (EXAMPLE, "pending", "ada@first.test"),
            (EXAMPLE, "pending", "bob@first.test"),
            ("bob.example", "active", "bob@first.test"),
        ]
    );
    let listed = env.run("domain list --json").await;
    let listed: Vec<Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(listed.len(), 6);
    assert_eq!(listed[0]["configured"], true);
    assert_eq!(listed[5]["account"], "bob@first.test");
    assert_eq!(listed[5]["state"], "active");
}

#[tokio::test]
async fn a_domain_is_shown_with_its_current_dns_records() {
    let env = TestEnv::start().await;
    let ada = env.service.person("ada").await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let wanted = &claimed["verification"];
    let (host, value) = (
        wanted["host"].as_str().unwrap(),
        wanted["value"].as_str().unwrap(),
    );
    let shown = env.json("domain show Ada.Example.").await;
    assert_eq!(shown["domain"], EXAMPLE);
    assert_eq!(shown["platform"], Value::Null);
    let challenge = json!({ "host": host, "value": value, "ok": false });
    assert_eq!(shown["claims"][0]["challenge"], challenge);
    assert_eq!(shown["claims"][0]["account"], "ada@first.test");
    assert_eq!(shown["records"].as_array().unwrap().len(), 3);

    env.dns.servfail(host);
    let shown = env.json("domain show ada.example").await;
    assert_eq!(shown["claims"][0]["challenge"]["ok"], Value::Null);
    env.dns.clear();
    env.dns.txt(host, &[value]);
    let shown = env.run("domain show ada.example").await;
    assert!(
        shown.contains(&format!("{host} TXT {value}  (found)")),
        "{shown}"
    );
    env.run("domain verify ada.example").await;
    add_alias(&ada, "info@ada.example", true).await;
    env.run("domain hold list@ada.example").await;
    env.dns.txt("_dmarc.ada.example", &["v=DMARC1; p=none"]);
    let shown = env.json("domain show ada.example").await;
    assert_eq!(shown["claims"][0]["state"], "active");
    assert!(shown["claims"][0].get("challenge").is_none());
    assert_eq!(
        (&shown["accounts"], &shown["aliases"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(shown["held"], json!(["list@ada.example"]));
    let records = shown["records"].as_array().unwrap();
    let states: Vec<(&str, &Value)> = records
        .iter()
        .map(|record| (record["kind"].as_str().unwrap(), &record["ok"]))
        .collect();
    let (yes, no) = (&json!(true), &json!(false));
    assert_eq!(
        states,
        [("MX", no), ("SPF", no), ("DKIM", no), ("DMARC", yes)]
    );
    let lines = env.run("domain show ada.example").await;
    assert!(lines.contains("DMARC  found"), "{lines}");
    assert!(lines.contains("MX     not found"), "{lines}");

    let platform = env.json("domain show first.test").await;
    assert_eq!(platform["platform"]["configured"], true);
    assert_eq!(platform["accounts"], 1);
    env.fails_mentioning("domain show other.example", "no account claims it")
        .await;
    env.fails_mentioning("domain show not_a_domain", "is not a domain")
        .await;
}

#[tokio::test]
async fn verifying_a_domain_needs_its_dns_record_or_the_unchecked_option() {
    let env = TestEnv::start().await;
    let (ada, bob) = (
        env.service.person("ada").await,
        env.service.person("bob").await,
    );
    env.fails_mentioning("domain verify ada.example", "no account claims ada.example")
        .await;
    let claimed = claim(&ada, EXAMPLE).await.succeeds(201);
    let host = claimed["verification"]["host"].as_str().unwrap();
    env.fails_mentioning("domain verify ada.example", "there is no TXT record at")
        .await;
    env.dns.servfail(host);
    env.fails_mentioning("domain verify ada.example", "the DNS lookup failed")
        .await;
    assert_eq!(status(&ada, EXAMPLE).await, "pending_verification");
    env.dns.clear();

    claim(&bob, EXAMPLE).await.succeeds(201);
    env.fails_mentioning(
        "domain verify ada.example --unchecked",
        "ada@first.test, bob@first.test",
    )
    .await;
    env.fails_mentioning(
        "domain verify ada.example --unchecked --account eve@first.test",
        "eve@first.test does not claim ada.example",
    )
    .await;
    let verb = "domain verify ada.example --unchecked --account Bob@first.test";
    env.run(verb).await;
    assert_eq!(status(&bob, EXAMPLE).await, "active");
    assert_eq!(status(&ada, EXAMPLE).await, Value::Null);
    let again = env.run("domain verify ada.example").await;
    assert_eq!(again, "ada.example is already active for bob@first.test.\n");
    let record = env.run("audit --account bob@first.test").await;
    assert!(
        record.contains("domain_verified  bob@first.test  by operator  about ada.example"),
        "{record}"
    );
    let record = env.run("audit --account ada@first.test").await;
    assert!(record.contains("domain_claim_voided"), "{record}");
    assert!(!record.contains("bob@first.test"), "{record}");
}

#[tokio::test]
async fn releasing_a_domain_with_aliases_needs_the_aliases_option() {
    let env = TestEnv::start().await;
    let service = &env.service;
    let ada = service.person("ada").await;
    claim(&ada, EXAMPLE).await.succeeds(201);
    assert_eq!(
        env.run("domain release ada.example").await,
        "ada@first.test no longer claims ada.example.\n"
    );
    claim(&ada, EXAMPLE).await.succeeds(201);
    env.run("domain verify ada.example --unchecked").await;
    add_alias(&ada, "info@ada.example", false).await;
    env.fails_mentioning("domain release ada.example", "aliases on ada.example")
        .await;
    service
        .execute("UPDATE addresses SET live = FALSE WHERE address = 'info@ada.example'")
        .await;
    let released = env.run("domain release ada.example").await;
    assert!(
        released.contains("no longer belongs to ada@first.test"),
        "{released}"
    );
    assert_eq!(status(&ada, EXAMPLE).await, Value::Null);

    // `--aliases` is needed to release a domain with aliases.
    claim(&ada, EXAMPLE).await.succeeds(201);
    env.run("domain verify ada.example --unchecked").await;
    add_alias(&ada, "info@ada.example", true).await;
    env.fails_mentioning("domain release ada.example", "--aliases deletes them")
        .await;
    let released = env.run("domain release ada.example --aliases").await;
    assert!(
        released.contains("the aliases on it are deleted"),
        "{released}"
    );
    assert_eq!(status(&ada, EXAMPLE).await, Value::Null);
    let aliases = ada.send("GET /api/v1/aliases").await.succeeds(200);
    assert!(!aliases.to_string().contains("info@"), "{aliases}");
    let record = env.run("audit --account ada@first.test").await;
    assert!(
        record.contains("alias_deleted  ada@first.test  by operator  about info@ada.example"),
        "{record}"
    );
    env.fails_mentioning(
        "domain release ada.example",
        "no account claims ada.example",
    )
    .await;
}

#[tokio::test]
async fn a_platform_domain_can_be_added_and_removed_while_the_service_runs() {
    let mut env = TestEnv::start().await;
    {
        let ada = env.service.person("ada").await;
        claim(&ada, "shared.example").await.succeeds(201);
        claim(&ada, EXAMPLE).await.succeeds(201);
        env.run("domain verify ada.example --unchecked").await;
    }
    assert_eq!(
        env.run("domain add Shared.Example").await,
        "shared.example is a platform domain. Claims of accounts that were voided: 1.\n"
    );
    assert_eq!(
        env.run("domain add shared.example").await,
        "shared.example is already a platform domain.\n"
    );
    env.fails_mentioning(
        "domain add ada.example",
        "ada.example belongs to ada@first.test",
    )
    .await;
    env.fails_mentioning("domain add co.uk", "is not a domain")
        .await;
    env.fails_mentioning("domain remove first.test", "registration.domains")
        .await;
    env.fails_mentioning("domain remove other.example", "not a platform domain")
        .await;
    // The domain persists through a restart.
    env.service.restart().await;
    let ada = Person::sign_in(&env.service, "ada@first.test", PASSWORD).await;
    assert_eq!(status(&ada, "shared.example").await, Value::Null);
    let refused = claim(&ada, "shared.example").await;
    refused.fails(400, "Enter a valid domain you own (e.g. example.com)");

    // Only the operator can create accounts on the domain.
    let form = json!({
        "local_part": "eve", "domain": "shared.example", "password": PASSWORD,
        "first_name": "Eve", "last_name": "Moore", "dob": "1980-01-01",
    });
    let refused = env.service.post("/api/v1/auth/register", &form).await;
    refused.fails_mentioning(400, "domain must be one of");
    let made = env
        .service
        .operator("account create eve@shared.example", "Pass-Word-1\n");
    assert_eq!(made.await.succeeds(), "eve@shared.example was created.\n");
    Person::sign_in(&env.service, "eve@shared.example", "Pass-Word-1").await;
    env.service
        .deliver("eve@shared.example", "Subject: x\n\nx\n")
        .await;
    env.fails_mentioning("domain remove shared.example", "accounts 1, aliases 0")
        .await;
    let deleted = "account delete eve@shared.example --yes";
    env.run(deleted).await;
    assert_eq!(
        env.run("domain remove shared.example").await,
        "shared.example is no longer a platform domain: mail for it is refused.\n"
    );
    claim(&ada, "shared.example").await.succeeds(201);
}

#[tokio::test]
async fn a_held_address_is_unavailable_until_it_is_freed() {
    let env = TestEnv::start().await;
    let service = &env.service;
    let ada = service.person("ada").await;
    let register = async |name: &str| {
        let body = json!({
            "local_part": name, "domain": "first.test", "password": PASSWORD,
            "first_name": "Eve", "last_name": "Moore", "dob": "1980-01-01",
        });
        service.post("/api/v1/auth/register", &body).await
    };
    assert_eq!(
        env.run("domain hold List@First.test").await,
        "list@first.test is held: no account can use it.\n"
    );
    assert_eq!(
        env.run("domain hold list@first.test").await,
        "list@first.test is already held.\n"
    );
    register("list")
        .await
        .fails(409, "This email address is already taken");
    env.fails_mentioning("domain hold ada@first.test", "in use")
        .await;
    env.fails_mentioning("domain hold nonsense", "not an address")
        .await;
    env.fails_mentioning("domain free ada@first.test", "in use")
        .await;
    // `account free` frees addresses of former owners, not held ones.
    env.fails_mentioning("account free list@first.test", "in use")
        .await;
    assert_eq!(
        env.run("domain free list@first.test").await,
        "list@first.test is released: any account can use it.\n"
    );
    assert_eq!(
        env.run("domain free list@first.test").await,
        "list@first.test is neither held nor reserved.\n"
    );
    register("list").await.succeeds(201);
    drop(ada);
    env.run("account delete ada@first.test --yes").await;
    env.run("domain hold ada@first.test").await;
    env.run("domain free ada@first.test").await;
    register("ada").await.succeeds(201);
    let record = env.run("audit").await;
    for states in [
        "address_held  list@first.test  by operator",
        "address_freed",
    ] {
        assert!(record.contains(states), "{states}: {record}");
    }
}
