package shedders;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.impl.AvgShedder;
import org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate;
import org.apache.pulsar.broker.loadbalance.impl.LeastResourceUsageWithWeight;
import org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder;
import org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder;

/**
 * Runs Pulsar's own shedders on a cluster of plain files, cycle after cycle, until they come to rest.
 *
 * <pre>java -cp "CLASSES:JARS/*" shedders.ShedderHarness FOLDER MOST_CYCLES REPETITIONS CONFIGURATION...</pre>
 *
 * <p>Prints one line of JSON for each repetition of each configuration: how many cycles and unloads it took, how long the
 * shedder spent deciding, and where the bundles ended. All repetitions share one JVM, so that later ones run warm.
 *
 * <p>The harness gives the shedders their best case: load settles before the next cycle, nothing cools down, one hit of a
 * condition suffices, and no policy forbids a broker.
 */
public final class ShedderHarness {
    /** AvgShedder acts on the eighth hit in a row; whoever does nothing for longer than that has come to rest. */
    private static final int CYCLES_AT_REST = 12;

    private static final double TUNED_TARGET_STD = 0.02;
    private static final int TUNED_REPORTED_BUNDLES = 1000;

    private ShedderHarness() {}

    /** What one configuration did with the cluster. */
    record Outcome(
            String configuration,
            int cycles,
            int unloads,
            @JsonProperty("repeat_unloads") int repeatUnloads,
            @JsonProperty("decide_ms") double decideMs,
            List<PlainCluster.Step> steps) {}

    public static void main(String[] arguments) {
        if (arguments.length < 4) {
            System.err.println("usage: ShedderHarness FOLDER MOST_CYCLES REPETITIONS CONFIGURATION...");
            System.exit(2);
        }
        int exitCode = 0;
        try {
            List<String> configurations = List.of(arguments).subList(3, arguments.length);
            runAll(Path.of(arguments[0]), Integer.parseInt(arguments[1]), Integer.parseInt(arguments[2]), configurations);
        } catch (IOException | IllegalArgumentException error) {
            System.err.println(error.getMessage());
            exitCode = 1;
        }
        // Pulsar's classes leave threads behind that would keep the JVM alive.
        System.exit(exitCode);
    }

    private static void runAll(Path folder, int mostCycles, int repetitions, List<String> configurations)
            throws IOException {
        ObjectMapper json = new ObjectMapper();
        for (String configuration : configurations) {
            for (int repetition = 0; repetition < repetitions; repetition++) {
                Outcome outcome = run(configuration, PlainCluster.read(folder), mostCycles);
                System.out.println(json.writeValueAsString(outcome));
            }
        }
    }

    private static Outcome run(String configuration, PlainCluster cluster, int mostCycles) {
        Shedding shedding = create(configuration);
        int cycles = 0;
        int cyclesAtRest = 0;
        int unloads = 0;
        long decidedInNanos = 0;
        while (cycles < mostCycles && cyclesAtRest < CYCLES_AT_REST) {
            decidedInNanos += shedding.runCycle(cluster);
            cycles++;
            cyclesAtRest = cluster.unloads() == unloads ? cyclesAtRest + 1 : 0;
            unloads = cluster.unloads();
        }
        double decideMs = decidedInNanos / 1e6;
        return new Outcome(configuration, cycles, unloads, cluster.repeatedUnloads(), decideMs, cluster.steps());
    }

    private static Shedding create(String configuration) {
        ServiceConfiguration settings = new ServiceConfiguration();
        settings.setLoadBalancerSheddingConditionHitCountThreshold(0);
        settings.setLoadBalanceSheddingDelayInSeconds(0);
        switch (configuration) {
            case "TransferShedder":
                return new TransferShedding(settings);
            case "TransferShedder-tuned":
                settings.setLoadBalancerBrokerLoadTargetStd(TUNED_TARGET_STD);
                settings.setLoadBalancerMaxNumberOfBundlesInBundleLoadReport(TUNED_REPORTED_BUNDLES);
                return new TransferShedding(settings);
            case "ThresholdShedder-default":
                return new ModularShedding(new ThresholdShedder(), new LeastLongTermMessageRate(), settings);
            case "ThresholdShedder-least-resource":
                return new ModularShedding(new ThresholdShedder(), new LeastResourceUsageWithWeight(), settings);
            case "UniformLoadShedder":
                return new ModularShedding(new UniformLoadShedder(), new LeastLongTermMessageRate(), settings);
            case "AvgShedder":
                // It remembers the destinations that it had in mind, and places the bundles there itself.
                AvgShedder shedder = new AvgShedder();
                return new ModularShedding(shedder, shedder, settings);
            default:
                throw new IllegalArgumentException("there is no configuration '" + configuration + "'");
        }
    }
}
