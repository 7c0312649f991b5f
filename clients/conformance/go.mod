module github.com/retrydecider/decider/clients/conformance

go 1.26.0
