module github.com/retrydecider/decider/clients/go

go 1.26.0
